#include "numerals.h"

#include <stddef.h>
#include <string.h>

static const struct {
    int value;
    const char *letters;
} VALUES[] = {
    {1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"},
    {40, "XL"},  {10, "X"},   {9, "IX"},  {5, "V"},    {4, "IV"},  {1, "I"},
};

static const size_t COUNT = sizeof VALUES / sizeof VALUES[0];

int to_roman(int number, char numeral[NUMERAL_SIZE])
{
    numeral[0] = '\0';
    if (number < 1 || number > 3999)
        return 0;
    for (size_t i = 0; i < COUNT; i++) {
        while (number >= VALUES[i].value) {
            strcat(numeral, VALUES[i].letters);
            number -= VALUES[i].value;
        }
    }
    return 1;
}

int from_roman(const char *numeral)
{
    char again[NUMERAL_SIZE];
    const char *rest = numeral;
    int number = 0;

    /* A longer text would only overflow the sum; no numeral is. */
    if (strlen(numeral) >= NUMERAL_SIZE)
        return 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t len = strlen(VALUES[i].letters);
        while (strncmp(rest, VALUES[i].letters, len) == 0) {
            number += VALUES[i].value;
            rest += len;
        }
    }
    /* Greedy reading accepts too much, IIII for one; writing the number again tells. */
    if (*rest != '\0' || !to_roman(number, again) || strcmp(again, numeral) != 0)
        return 0;
    return number;
}
