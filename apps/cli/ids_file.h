/* cli/ids_file.h - token ids in JSON: [T] or [B][T].
 *
 * Path:     --ids-file, the ids of a golden file -> [this] -> run, logits
 * Memory:   the cli_id_rows owns its ids until cli_id_rows_free. */
#ifndef CLI_IDS_FILE_H
#define CLI_IDS_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "flashnext.h"

typedef struct cli_id_rows {
    int32_t *ids; /* [rows, length] */
    size_t rows, length;
} cli_id_rows;

/* Fails with FN_E_IO, FN_E_USAGE (not JSON, not rows of equal length, not ids, empty). */
fn_status cli_id_rows_read(const char *path, cli_id_rows *out, fn_error *err);
/* Every id below vocab? path is for the message. Fails with FN_E_USAGE. */
fn_status cli_id_rows_check(const cli_id_rows *rows, const char *path, size_t vocab, fn_error *err);
void cli_id_rows_free(cli_id_rows *rows);

/* "13,16,1,1" -> lengths [*n], the caller's; they must add up to length. Fails with FN_E_USAGE. */
fn_status cli_split_read(const char *text, size_t length, size_t **out, size_t *n, fn_error *err);

#endif
