#include "cli/option_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/report.h"

bool cli_choice_has(const char *choices, const char *word) {
    size_t n = strcspn(word, "|");
    for (const char *at = choices; n > 0 && word[n] == 0 && at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, word, n) == 0 && (at[n] == '|' || at[n] == 0)) {
            return true;
        }
    }
    return false;
}

static fn_status store_flag(cli_value *value, const char *shown, const char *text, fn_error *err) {
    if (text == NULL || cli_choice_has("1|on|true|yes", text)) {
        value->number = 1.0;
    } else if (cli_choice_has("0|off|false|no", text)) {
        value->number = 0.0;
    } else {
        return cli_fail(err, FN_E_USAGE, "%s: expected on or off, found '%s'", shown, text);
    }
    return FN_OK;
}

static fn_status store_choice(const cli_option *option, const char *shown, const char *text,
                              fn_error *err) {
    if (cli_choice_has(option->value, text)) {
        return FN_OK;
    }
    return cli_fail(err, FN_E_USAGE, "%s: expected %s, found '%s'", shown, option->value, text);
}

/* strtod, but decimal only: no blanks, "inf", "nan" or hexadecimal. */
static bool read_decimal(const char *text, double *out) {
    if (text[0] == 0 || text[strspn(text, "+-.0123456789eE")] != 0) {
        return false;
    }
    char *end = NULL;
    *out = strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

static fn_status store_number(cli_value *value, const cli_option *option, const char *shown,
                              const char *text, fn_error *err) {
    bool whole = option->kind == CLI_KIND_COUNT;
    double number = 0.0;
    if (!read_decimal(text, &number) || (whole && number != floor(number))) {
        return cli_fail(err, FN_E_USAGE, "%s: expected %s, found '%s'", shown,
                        whole ? "an integer" : "a number", text);
    }
    if (number < option->low || number > option->high) {
        return cli_fail(err, FN_E_USAGE, "%s: expected %.10g to %.10g, found %s", shown,
                        option->low, option->high, text);
    }
    value->number = number;
    return FN_OK;
}

static fn_status store_seed(cli_value *value, const char *shown, const char *text, fn_error *err) {
    if (strcmp(text, "-1") == 0) {
        value->number = -1.0; /* as if it were not given */
        return FN_OK;
    }
    char *end = NULL;
    errno = 0;
    unsigned long long seed = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != 0 || errno != 0) {
        return cli_fail(err, FN_E_USAGE,
                        "%s: expected an integer from 0 to 18446744073709551615, or -1, found '%s'",
                        shown, text);
    }
    value->number = 0.0;
    value->whole = seed;
    return FN_OK;
}

/* What a unit stands for: B, or K M G T with nothing, "iB", "ib", "i" (powers of 1024) or "B" (of 1000, so that 1 GB
 * is 10^9 bytes) behind it; 0 for anything else. */
static double unit_factor(const char *unit) {
    static const char units[] = "KMGT";
    if (unit[0] == 0 || strcmp(unit, "B") == 0) {
        return 1.0;
    }
    const char *at = strchr(units, cli_upper(unit[0]));
    bool decimal = strcmp(unit + 1, "B") == 0;
    if (at == NULL || !(decimal || unit[1] == 0 || cli_choice_has("iB|ib|i", unit + 1))) {
        return 0.0;
    }
    return pow(decimal ? 1000.0 : 1024.0, (double)(at - units + 1));
}

static fn_status store_size(cli_value *value, const cli_option *option, const char *shown,
                            const char *text, fn_error *err) {
    char digits[40] = "";
    size_t n = strspn(text, "0123456789.");
    double number = 0.0;
    double bytes = 0.0;
    if (n < sizeof digits) {
        memcpy(digits, text, n);
        digits[n] = 0;
        bytes = read_decimal(digits, &number) ? number * unit_factor(text + n) : 0.0;
    }
    bool zero = option->low == 0.0 && strcmp(digits, "0") == 0; /* where 0 has a meaning */
    if ((bytes < 1.0 && !zero) || bytes > 9e18) {
        return cli_fail(err, FN_E_USAGE, "%s: expected a size such as 64GiB, found '%s'", shown,
                        text);
    }
    value->whole = (uint64_t)bytes;
    return FN_OK;
}

static void list_add(cli_value *value, const char *text) {
    char **list = cli_alloc((value->n_list + 1) * sizeof *list);
    if (value->n_list > 0) {
        memcpy(list, value->list, value->n_list * sizeof *list);
    }
    free(value->list);
    list[value->n_list] = cli_strdup(text);
    value->list = list;
    value->n_list++;
}

void cli_value_clear(cli_value *value) {
    for (size_t i = 0; i < value->n_list; i++) {
        free(value->list[i]);
    }
    free(value->list);
    free(value->text);
    *value = (cli_value){0};
}

fn_status cli_value_store(cli_value *value, const cli_option *option, const char *shown,
                          const char *text, cli_source source, fn_error *err) {
    if (option->kind == CLI_KIND_LIST && value->source == source) {
        list_add(value, text);
        return FN_OK;
    }
    cli_value fresh = {.source = source};
    fn_status status = FN_OK;
    switch (option->kind) {
    case CLI_KIND_FLAG:
        status = store_flag(&fresh, shown, text, err);
        break;
    case CLI_KIND_CHOICE:
        status = store_choice(option, shown, text, err);
        break;
    case CLI_KIND_COUNT:
    case CLI_KIND_NUMBER:
        status = store_number(&fresh, option, shown, text, err);
        break;
    case CLI_KIND_SEED:
        status = store_seed(&fresh, shown, text, err);
        break;
    case CLI_KIND_SIZE:
        status = store_size(&fresh, option, shown, text, err);
        break;
    case CLI_KIND_LIST:
        list_add(&fresh, text);
        break;
    case CLI_KIND_TEXT:
        break;
    }
    if (status != FN_OK) {
        return status;
    }
    if (option->kind != CLI_KIND_FLAG && option->kind != CLI_KIND_LIST) {
        fresh.text = cli_strdup(text);
    }
    cli_value_clear(value);
    *value = fresh;
    return FN_OK;
}
