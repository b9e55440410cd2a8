/* cli/conversation.h - the messages of a chat, as the chat template wants them.
 *
 * Path:     what was typed, finished answers -> [this] -> the request of fn_text_render
 * Memory:   owns its JSON until cli_conversation_free. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include <jansson.h>

#include "cli/buffer.h"
#include "cli/options.h"
#include "flashnext.h"

typedef struct cli_conversation {
    json_t *messages; /* [{role, content, reasoning_content?}] */
    json_t *kwargs;   /* variables of the template, from --chat-template-kwargs */
} cli_conversation;

/* With --system or --system-file and --chat-template-kwargs. Fails with FN_E_USAGE, FN_E_IO. */
fn_status cli_conversation_init(cli_conversation *talk, const cli_options *options, fn_error *err);
void cli_conversation_free(cli_conversation *talk);

/* The system message; NULL: there is none. */
const char *cli_conversation_system(const cli_conversation *talk);
void cli_conversation_set_system(cli_conversation *talk, const char *text); /* NULL removes it */

/* Number of messages, the system message not counted. */
size_t cli_conversation_turns(const cli_conversation *talk);
/* Forgets everything but the system message. */
void cli_conversation_clear(cli_conversation *talk);

void cli_conversation_add_user(cli_conversation *talk, const char *text, size_t n);
/* thought and answer are stored without white space around them, as templates render them again. */
void cli_conversation_add_assistant(cli_conversation *talk, const cli_buffer *thought,
                                    const cli_buffer *answer);
/* Role of the last message ("" if there is none); drops it. */
const char *cli_conversation_last_role(const cli_conversation *talk);
void cli_conversation_drop_last(cli_conversation *talk);

/* The request for the next answer; think is "on", "off", an effort, or NULL. Freed with free(). */
char *cli_conversation_request(const cli_conversation *talk, const char *think);

/* A JSON file that appears whole or not at all. Fail with FN_E_IO, FN_E_FAILED. */
fn_status cli_conversation_save(const cli_conversation *talk, const char *path, fn_error *err);
fn_status cli_conversation_load(const char *path, cli_conversation *out, fn_error *err);

#endif
