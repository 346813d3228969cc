/* Simulates a trace on a drive and prints the result in JSON: `simulate TRACE DRIVE [FORMAT]`. */
#include <sakiyomi.h>
#include <stdio.h>

int main(int count, char **words) {
    sakiyomi_simulation_options options = {.size = sizeof options, .chunk = "commands=1000"};
    char *document, *notes;
    if (count < 3 || count > 4) {
        fprintf(stderr, "usage: simulate TRACE DRIVE [FORMAT]\n");
        return 2;
    }
    options.format = count == 4 ? words[3] : NULL;
    if (sakiyomi_simulate(words[1], words[2], &options, &document, &notes) < 0) {
        fprintf(stderr, "%s\n", sakiyomi_last_error());
        return 2;
    }
    if (*notes)
        fprintf(stderr, "%s\n", notes);
    printf("%s\n", document);
    sakiyomi_text_free(document);
    sakiyomi_text_free(notes);
    return 0;
}
