#include <stdlib.h>

#include "cli/commands.h"
#include "cli/ids_file.h"
#include "cli/model.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "flashnext_tools.h"

static int write_logits(const cli_options *options, const cli_id_rows *rows,
                        const fn_trace_options *trace) {
    fn_error err = {0};
    cli_model model;
    size_t drafted = trace->drafts > 0 ? trace->draft_position + 1 + trace->drafts : 0;
    size_t context = trace->length > drafted ? trace->length : drafted;
    fn_status status = cli_model_open(options, FN_PRECISION_EXACT, context, &model, &err);
    if (status != FN_OK) {
        int failed = cli_report_model(status, &err);
        cli_model_close(&model);
        return failed;
    }
    status = cli_id_rows_check(rows, cli_text(options, CLI_OPT_IDS_FILE), model.info.vocab, &err);
    if (status == FN_OK) {
        status = fn_trace_run(model.engine, trace, cli_text(options, CLI_OPT_OUT), &err);
    }
    cli_progress_clear(&model.progress);
    int code = cli_report(status, &err);
    cli_model_close(&model);
    return code;
}

static size_t drafts_asked(const cli_options *options) {
    bool asked = cli_is_set(options, CLI_OPT_DRAFT_POSITION) || cli_is_set(options, CLI_OPT_DRAFTS);
    return asked ? cli_count(options, CLI_OPT_DRAFTS, 3) : 0;
}

int cli_logits(const cli_options *options) {
    const char *path = cli_text(options, CLI_OPT_IDS_FILE);
    if (path == NULL || cli_text(options, CLI_OPT_OUT) == NULL ||
        cli_text(options, CLI_OPT_MODEL_DIR) == NULL) {
        cli_complain("logits: --model-dir, --ids-file and --out are needed");
        return CLI_EXIT_USAGE;
    }
    cli_signals_end_removing(NULL);
    fn_error err = {0};
    cli_id_rows rows;
    fn_status status = cli_id_rows_read(path, &rows, &err);
    size_t *split = NULL;
    size_t n_split = 0;
    const char *split_text = cli_text(options, CLI_OPT_SPLIT);
    if (status == FN_OK && split_text != NULL) {
        status = cli_split_read(split_text, rows.length, &split, &n_split, &err);
    }
    int code = cli_report(status, &err);
    if (status == FN_OK) {
        fn_trace_options trace = {
            .ids = rows.ids,
            .rows = rows.rows,
            .length = rows.length,
            .split = split,
            .n_split = n_split,
            .together = cli_flag(options, CLI_OPT_TOGETHER),
            .trace = cli_flag(options, CLI_OPT_TRACE),
            .draft_position = cli_count(options, CLI_OPT_DRAFT_POSITION, 0),
            .drafts = drafts_asked(options),
        };
        code = write_logits(options, &rows, &trace);
    }
    free(split);
    cli_id_rows_free(&rows);
    return code;
}
