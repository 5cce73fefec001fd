// The server's time. This machine's clock may be wrong by hours, and may be corrected while the page is open. So the page takes the
// time from the server's answers, and counts on from it with a clock that nobody sets.

/** The server's time when the page's monotonic clock began, in milliseconds: the most of what the answers said, since each is a little old. */
let beganMs = -Infinity;

/** @param {number} nowMs the server's time, in milliseconds; NaN if the answer has none */
export function learn(nowMs) {
  if (!Number.isNaN(nowMs)) beganMs = Math.max(beganMs, nowMs - performance.now());
}

/** Takes the time from an answer, and returns the answer. @param {Response} answer */
export function heard(answer) {
  learn(Date.parse(answer.headers.get('Date') ?? ''));
  return answer;
}

/** The server's time, in milliseconds; this machine's until there was an answer. */
export function serverNow() {
  return (beganMs === -Infinity ? performance.timeOrigin : beganMs) + performance.now();
}
