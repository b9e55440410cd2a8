/* cli/model.h - from options to a loaded model.
 *
 * Path:     options -> [this] -> engine or text, for every command that needs one
 * Memory:   the cli_model owns what it opened until cli_model_close. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli/options.h"
#include "cli/progress.h"
#include "flashnext.h"

typedef struct cli_model {
    char *dir;
    fn_engine *engine;
    const fn_text *text;
    cli_progress progress;
    fn_engine_info info;
} cli_model;

/* --model-dir, else the demo model. The caller frees *out. Fails with FN_E_MODEL, naming where
 * it looked. */
fn_status cli_model_dir(const cli_options *options, char **out, fn_error *err);

/* Loads with the options of the command; context replaces --context unless it is 0. precision is
 * what counts where --precision is not given. */
fn_status cli_model_open(const cli_options *options, fn_precision precision, size_t context,
                         cli_model *out, fn_error *err);
/* For a scheduler: memory for that many sequences, and so many bytes left to it. */
fn_status cli_model_open_for(const cli_options *options, size_t sequences,
                             const fn_scheduler_options *scheduler, cli_model *out, fn_error *err);
void cli_model_close(cli_model *model);

/* Tokenizer and template alone. */
fn_status cli_text_open(const cli_options *options, bool need_tokenizer, fn_text **out,
                        fn_error *err);

/* The number of a choice such as 16|8|4; 0: not given. */
int cli_bits(const cli_options *options, cli_option_id id);

/* --ngram-mmap or --ngram-ram; FN_E_USAGE for both. */
fn_status cli_ngram_place(const cli_options *options, fn_ngram_place *out, fn_error *err);

/* Where the model's n-gram table is and what the page cache holds of it: a line on standard error; nothing for a
 * model without one. */
void cli_ngram_show(const fn_engine *engine);

/* Bytes for people: "1.25 GiB"; out [size]. */
const char *cli_bytes(uint64_t bytes, char *out, size_t size);

#endif
