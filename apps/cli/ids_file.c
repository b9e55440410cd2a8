#include "cli/ids_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/report.h"

/* One row into ids [length]. */
static fn_status read_row(const json_t *row, const char *path, size_t length, int32_t *ids,
                          fn_error *err) {
    if (!json_is_array(row) || json_array_size(row) != length) {
        return cli_fail(err, FN_E_USAGE, "%s: expected rows of ids, all of one length", path);
    }
    for (size_t i = 0; i < length; i++) {
        const json_t *id = json_array_get(row, i);
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || value > INT32_MAX) {
            char *found = json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT);
            (void)cli_fail(err, FN_E_USAGE, "%s: element %zu: expected a token id, found %.100s",
                           path, i, found != NULL ? found : "nothing");
            free(found);
            return FN_E_USAGE;
        }
        ids[i] = (int32_t)value;
    }
    return FN_OK;
}

static fn_status read_rows(const json_t *root, const char *path, cli_id_rows *out, fn_error *err) {
    bool nested = json_is_array(json_array_get(root, 0));
    out->rows = nested ? json_array_size(root) : 1;
    out->length = json_array_size(nested ? json_array_get(root, 0) : root);
    if (!json_is_array(root)) {
        return cli_fail(err, FN_E_USAGE, "%s: expected an array of ids, or of arrays of ids", path);
    }
    if (out->length == 0) {
        return cli_fail(err, FN_E_USAGE, "%s: the prompt is empty: there are no ids", path);
    }
    out->ids = cli_alloc(out->rows * out->length * sizeof *out->ids);
    for (size_t b = 0; b < out->rows; b++) {
        const json_t *row = nested ? json_array_get(root, b) : root;
        fn_status status = read_row(row, path, out->length, out->ids + b * out->length, err);
        if (status != FN_OK) {
            return status;
        }
    }
    return FN_OK;
}

fn_status cli_id_rows_read(const char *path, cli_id_rows *out, fn_error *err) {
    *out = (cli_id_rows){0};
    cli_buffer text = {0};
    fn_status status = cli_read_text(&text, path, err);
    if (status == FN_OK) {
        json_error_t at;
        json_t *root = json_loadb(cli_buffer_text(&text), text.n, 0, &at);
        if (root == NULL) {
            status = cli_fail(err, FN_E_USAGE, "%s:%d: %s", path, at.line, at.text);
        } else {
            status = read_rows(root, path, out, err);
        }
        json_decref(root);
    }
    cli_buffer_free(&text);
    if (status != FN_OK) {
        cli_id_rows_free(out);
    }
    return status;
}

fn_status cli_id_rows_check(const cli_id_rows *rows, const char *path, size_t vocab,
                            fn_error *err) {
    for (size_t i = 0; i < rows->rows * rows->length; i++) {
        if ((size_t)rows->ids[i] >= vocab) {
            return cli_fail(err, FN_E_USAGE,
                            "%s: element %zu of row %zu: found %d, expected an id "
                            "below %zu",
                            path, i % rows->length, i / rows->length, (int)rows->ids[i], vocab);
        }
    }
    return FN_OK;
}

void cli_id_rows_free(cli_id_rows *rows) {
    free(rows->ids);
    *rows = (cli_id_rows){0};
}

fn_status cli_split_read(const char *text, size_t length, size_t **out, size_t *n, fn_error *err) {
    size_t most = 1;
    for (const char *c = text; *c != 0; c++) {
        most += *c == ',';
    }
    *out = cli_alloc(most * sizeof **out);
    *n = 0;
    size_t sum = 0;
    bool good = true;
    for (const char *at = text; good;) {
        char *end = NULL;
        errno = 0;
        unsigned long long piece = strtoull(at, &end, 10);
        good = *at >= '0' && *at <= '9' && errno == 0 && piece > 0 && piece <= length;
        sum += good ? (size_t)piece : 0;
        (*out)[*n] = (size_t)piece;
        *n += good;
        if (*end != ',') {
            good = good && *end == 0;
            break;
        }
        at = end + 1;
    }
    if (good && sum == length) {
        return FN_OK;
    }
    free(*out);
    *out = NULL;
    *n = 0;
    if (good) {
        return cli_fail(err, FN_E_USAGE,
                        "--split %s adds up to %zu, but there are %zu ids in a row", text, sum,
                        length);
    }
    return cli_fail(err, FN_E_USAGE, "--split: expected lengths such as 13,16,1,1, found '%s'",
                    text);
}
