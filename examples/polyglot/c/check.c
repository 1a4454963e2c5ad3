/* The C code against the table that all languages share: check TABLE. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerals.h"

int main(int argc, char **argv)
{
    FILE *table = argc == 2 ? fopen(argv[1], "r") : NULL;
    char line[256];
    int lines = 0, wrong = 0;

    if (table == NULL) {
        fprintf(stderr, "usage: check TABLE\n");
        return 2;
    }
    while (fgets(line, sizeof line, table) != NULL) {
        char numeral[NUMERAL_SIZE];
        char *text = strchr(line, '\t');
        int number = atoi(line); /* 0 for the "-" of a text that is no numeral */

        if (text == NULL)
            continue;
        *text++ = '\0';
        text[strcspn(text, "\n")] = '\0';
        lines++;
        if (from_roman(text) != number
            || (number != 0 && (!to_roman(number, numeral) || strcmp(numeral, text) != 0))) {
            fprintf(stderr, "C disagrees with the table: %s\t%s\n", line, text);
            wrong++;
        }
    }
    fclose(table);
    if (wrong == 0)
        printf("C agrees with all %d lines of the table\n", lines);
    return wrong != 0 || lines == 0;
}
