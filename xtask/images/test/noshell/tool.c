/* A tool of an image without a shell. `env` prints its environment, `cat` copies its stdin to its
   stdout, `exit N` ends with N; anything else is printed, one argument per line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

int main(int argc, char **argv) {
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "env") == 0) {
        for (char **variable = environ; *variable; variable++) puts(*variable);
    } else if (strcmp(verb, "cat") == 0) {
        for (int byte; (byte = getchar()) != EOF;) putchar(byte);
    } else if (strcmp(verb, "exit") == 0 && argc > 2) {
        return atoi(argv[2]);
    } else {
        for (int at = 1; at < argc; at++) puts(argv[at]);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
