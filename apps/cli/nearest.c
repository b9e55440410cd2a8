#include "cli/nearest.h"

#include <string.h>

#define MAX_LETTERS 63u

static size_t min3(size_t a, size_t b, size_t c) {
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Optimal string alignment; names longer than MAX_LETTERS are cut. */
size_t cli_edit_distance(const char *a, const char *b) {
    size_t n_a = strlen(a) < MAX_LETTERS ? strlen(a) : MAX_LETTERS;
    size_t n_b = strlen(b) < MAX_LETTERS ? strlen(b) : MAX_LETTERS;
    size_t rows[3][MAX_LETTERS + 1]; /* this row and the two before, i modulo 3 */
    for (size_t j = 0; j <= n_b; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n_a; i++) {
        size_t *now = rows[i % 3];
        const size_t *before = rows[(i + 2) % 3];
        now[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t change = a[i - 1] != b[j - 1];
            now[j] = min3(before[j] + 1, now[j - 1] + 1, before[j - 1] + change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                size_t swapped = rows[(i + 1) % 3][j - 2] + 1;
                now[j] = swapped < now[j] ? swapped : now[j];
            }
        }
    }
    return rows[n_a % 3][n_b];
}

cli_nearest cli_nearest_to(const char *wanted) {
    size_t third = strlen(wanted) / 3;
    size_t most = third < 1 ? 1 : third > 4 ? 4 : third;
    return (cli_nearest){.wanted = wanted, .distance = most + 1};
}

void cli_nearest_try(cli_nearest *nearest, const char *candidate) {
    size_t distance = cli_edit_distance(nearest->wanted, candidate);
    if (distance < nearest->distance) {
        nearest->distance = distance;
        nearest->best = candidate;
    }
}
