/* cli/chat.h - one chat: the conversation, its session, and how answers are made.
 *
 * Path:     terminal or a single prompt -> [chat.c: turns] [chat_commands.c: /commands] -> answers
 * Threads:  one at a time. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "cli/answer.h"
#include "cli/conversation.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/sampling.h"

typedef struct cli_chat_state {
    cli_options *options;
    cli_model model;
    fn_session *session;
    cli_conversation talk;
    cli_answer answer;
    uint64_t seed_base;   /* drawn once: what a random seed is in this chat */
    size_t n_regenerated; /* added to the seed, or the same answer would come again */
    cli_timings timings;  /* of the last answer */
    fn_finish finish;
    uint64_t seed; /* of the last answer */
    bool seed_is_random;
    bool interactive;
} cli_chat_state;

/* Answers the conversation, whose last message is the user's, and adds the answer to it. On
 * failure, and when it was stopped before any text came (FN_E_CANCELLED), the conversation is as
 * it was. */
fn_status cli_chat_answer(cli_chat_state *chat, fn_error *err);

/* A user's turn, shown on the screen; without an answer it leaves no trace. Returns an exit
 * code. */
int cli_chat_turn(cli_chat_state *chat, const char *text, size_t n);

/* A line that begins with "/". True: leave the chat. */
bool cli_chat_command(cli_chat_state *chat, const char *line);

/* Speed of the last answer, on standard error; unless it is not wanted. */
void cli_chat_show_timings(const cli_chat_state *chat);

#endif
