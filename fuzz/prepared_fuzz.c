/* Fuzzes weights/prepared.h: the manifest of a prepared checkpoint, with a digest that fits and as it comes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "weights/prepared.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void parse(const char *text, size_t n) {
    fn_error err = {0};
    fn_prepared *prepared = NULL;
    if (fn_prepared_parse(text, n, "fuzz", &prepared, &err) == FN_OK) {
        (void)fn_prepared_agrees(prepared, &(fn_weight_settings){.expert_bits = 4}, NULL);
    }
    fn_prepared_free(prepared);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    enum { TAIL = 19 };
    char *text = fn_alloc(n + TAIL + 1, 1);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, n);
    parse(text, n);
    (void)snprintf(text + n, TAIL + 1, "%016" PRIx64 "\"}\n",
                   fn_hash_bytes(FN_HASH_START, text, n));
    parse(text, n + TAIL);
    fn_free(text);
    return 0;
}
