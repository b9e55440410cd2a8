#include "engine/pace.h"

/* Beside others a chunk is to take about so long: whoever comes later waits for its end. */
#define CHUNK_SECONDS 1.0
/* Of the machine's time, while prompts are read: these take 1 / (1 - it) times as long as alone. */
#define ANSWERS_SHARE 0.28
/* Fewer rows make too little use of each weight that is read. */
#define LEAST_ROWS 512
/* While it is not known what riding costs. */
#define FIRST_RIDING 16

bool fn_pace_knows(const fn_pace *p) {
    return fn_row_times_near(&p->alone, 1) > 0;
}

double fn_pace_period(const fn_pace *p, size_t rows) {
    double most = FN_PACE_STRETCH * fn_row_times_near(&p->alone, rows);
    double fair = fn_row_times_near(&p->beside, rows) * p->part / ANSWERS_SHARE;
    return fair > 0 && fair < most ? fair : most;
}

size_t fn_pace_rows(const fn_pace *p, bool shared, size_t room) {
    double rows = CHUNK_SECONDS * p->chunk_rate;
    rows = rows > LEAST_ROWS ? rows : LEAST_ROWS;
    return shared && rows < (double)room ? (size_t)rows : room;
}

size_t fn_pace_ride(const fn_pace *p, size_t answers, bool beside, size_t room) {
    const fn_row_times *times = beside ? &p->beside : &p->riding;
    bool known = fn_row_times_near(times, answers + 1) > 0;
    size_t ids = answers > 0 && !known && room > FIRST_RIDING ? FIRST_RIDING : room;
    while (answers > 0 && ids > 0 &&
           fn_row_times_near(times, answers + ids) > fn_pace_period(p, answers)) {
        ids--;
    }
    return ids;
}

void fn_pace_learn(fn_pace *p, size_t rows, size_t ids, bool beside, double seconds) {
    fn_row_times_learn(beside ? &p->beside : ids > 0 ? &p->riding : &p->alone, rows, seconds);
}

void fn_pace_learn_chunk(fn_pace *p, size_t rows, double seconds) {
    double rate = (double)rows / seconds;
    p->chunk_rate = p->chunk_rate > 0 ? p->chunk_rate + 0.3 * (rate - p->chunk_rate) : rate;
}
