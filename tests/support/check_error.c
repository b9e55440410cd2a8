#include "support/check_error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void check_error_at(const char *file, int line, fn_status got, const fn_error *err, fn_status want,
                    ...) {
    va_list words;
    if (got != want || err->code != want || strchr(err->text, '\n') != NULL) {
        print_error("%s:%d: status %d, error %d, expected %d: \"%s\"\n", file, line, (int)got,
                    (int)err->code, (int)want, err->text);
        _fail(file, line);
    }
    va_start(words, want);
    for (const char *word = va_arg(words, const char *); word != NULL;
         word = va_arg(words, const char *)) {
        if (strstr(err->text, word) == NULL) {
            print_error("%s:%d: no \"%s\" in \"%s\"\n", file, line, word, err->text);
            va_end(words);
            _fail(file, line);
        }
    }
    va_end(words);
}
