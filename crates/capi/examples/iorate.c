/* Sets the rate of a process on a drive, as `sakiyomi iorate set PID DIR PERCENT` does; 0 removes it. */
#include <sakiyomi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: iorate PID DIR PERCENT\n");
        return 2;
    }
    if (sakiyomi_set_iorate((pid_t)atol(words[1]), words[2], atoi(words[3])) < 0) {
        fprintf(stderr, "%s\n", sakiyomi_last_error());
        return 2;
    }
    return 0;
}
