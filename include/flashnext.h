/* flashnext.h - run Qwen3.8-Flash-Next (qwen4_exp) checkpoints on CPUs. */
#ifndef FLASHNEXT_H
#define FLASHNEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_API __attribute__((visibility("default")))

/* name, value, text. Programs map MODEL and IO-of-a-model to exit code 3, FIT to 4, USAGE to 2. */
#define FN_STATUS_MAP(X)                                                                           \
    X(OK, 0, "ok")                                                                                 \
    X(E_FAILED, 1, "failed")                                                                       \
    X(E_USAGE, 2, "wrong argument")                                                                \
    X(E_MODEL, 3, "bad or missing model file")                                                     \
    X(E_FIT, 4, "does not fit in memory")                                                          \
    X(E_IO, 5, "input/output error")                                                               \
    X(E_NOMEM, 6, "out of memory")                                                                 \
    X(E_RANGE, 7, "out of range")                                                                  \
    X(E_UNSUPPORTED, 8, "not supported")                                                           \
    X(E_CANCELLED, 9, "cancelled")                                                                 \
    X(E_NUMERIC, 10, "not a finite number")

typedef enum fn_status {
#define FN_STATUS_ENUM(name, code, text) FN_##name = (code),
    FN_STATUS_MAP(FN_STATUS_ENUM)
#undef FN_STATUS_ENUM
} fn_status;

/* A message for people; initialise with {0}. The first failure stays. */
typedef struct fn_error {
    fn_status code;
    char text[1020];
} fn_error;

FN_API const char *fn_status_name(fn_status status);

#ifdef __cplusplus
}
#endif

#endif
