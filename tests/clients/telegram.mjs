// A small Bot API: one group, whose members a test names, and what the bot did there.

import { once } from 'node:events';
import { createServer } from 'node:http';

/** @typedef {{chat: number, message_id: number, text: string, buttons: string[], reply: number | undefined}} Message what the group sees */
/** @typedef {{method: string, at: number, status: number, fields: any}} Call */
/** @typedef {'lost' | 'held' | {retry_after: number}} Fault an answer that never comes, after or before the action; or a 429 */

export const GROUP = -1001;
const SUPERGROUP = -1002;
/** A chat's first message has the next number. */
const FIRST = 100;

export class Telegram {
  /** @type {Message[]} */
  messages = [];
  /** @type {Call[]} */
  calls = [];
  /** The answers to presses, by the press's id. @type {Map<string, string>} */
  answers = new Map();
  /** What goes wrong next, by method. @type {Map<string, Fault[]>} */
  faults = new Map();
  /** @type {Map<number, object>} */
  #members = new Map();
  /** @type {{update_id: number, message?: object, callback_query?: object}[]} */
  #updates = [];
  #last = 100;
  #lastMessage = FIRST;
  #group = GROUP;
  #confirmed = 0;
  #server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const fields = JSON.parse(Buffer.concat(chunks).toString());
    const method = request.url?.split('/').pop() ?? '';
    const fault = this.faults.get(method)?.shift();
    if (fault === 'held') return;
    const [status, answer] = typeof fault === 'object' ? [429, { description: 'Too Many Requests', parameters: fault }] : await this.#answer(method, fields);
    this.calls.push({ method, at: Date.now(), status, fields });
    if (fault === 'lost') return request.socket.destroy();
    return response.writeHead(status).end(JSON.stringify({ ok: status === 200, ...answer }));
  });

  async start() {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening');
    const { port } = /** @type {import('node:net').AddressInfo} */ (this.#server.address());
    return `http://127.0.0.1:${port}`;
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** @param {number} user @param {object} [member] what getChatMember says */
  join(user, member = { status: 'member' }) {
    this.#members.set(user, member);
  }

  /** The group becomes a supergroup, under another id. Its messages are numbered anew. */
  move() {
    this.#group = SUPERGROUP;
    this.#lastMessage = FIRST;
  }

  /** A user writes to the group; the bot gets the update so many times. @param {number} user @param {string} text @param {number} [times] */
  say(user, text, times = 1) {
    const message = { message_id: (this.#lastMessage += 1), from: person(user), chat: { id: this.#group, type: 'supergroup' }, text };
    for (let time = 0; time < times; time += 1) this.#updates.push({ update_id: (this.#last += 1), message });
    return message.message_id;
  }

  /** A user presses the button of a message, or of a copy from a changed app. @param {number} user @param {Message} message @param {string} [data] */
  press(user, { chat, message_id, text, buttons }, data = buttons[0]) {
    const id = String((this.#last += 1));
    const message = { message_id, text, chat: { id: chat, type: 'supergroup' }, reply_markup: { inline_keyboard: [buttons.map((callback_data) => ({ callback_data }))] } };
    this.#updates.push({ update_id: (this.#last += 1), callback_query: { id, from: person(user), message, data } });
    return id;
  }

  /** Whether the bot has confirmed all updates. */
  isIdle() {
    return this.#updates.every(({ update_id }) => update_id < this.#confirmed);
  }

  /** @param {string} method @param {any} fields @returns {Promise<[number, object]>} */
  async #answer(method, fields) {
    const { chat_id = this.#group } = fields;
    if (chat_id !== this.#group) return [400, { description: 'Bad Request: group chat was upgraded', parameters: { migrate_to_chat_id: this.#group } }];
    switch (method) {
      case 'getMe':
        return done({ id: 1, is_bot: true, username: 'packet_bot' });
      case 'getUpdates': {
        this.#confirmed = Math.max(this.#confirmed, fields.offset);
        const next = () => this.#updates.filter(({ update_id }) => update_id >= this.#confirmed).slice(0, 100);
        for (const end = Date.now() + 1_000; next().length === 0 && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 20));
        return done(next());
      }
      case 'getChatMember': {
        const member = this.#members.get(Number(fields.user_id));
        return member ? done({ user: person(fields.user_id), ...member }) : [400, { description: 'Bad Request: member not found' }];
      }
      case 'answerCallbackQuery':
        this.answers.set(fields.callback_query_id, fields.text);
        return done(true);
      case 'sendMessage': {
        const message = { chat: chat_id, message_id: (this.#lastMessage += 1), text: fields.text, buttons: buttonsOf(fields), reply: fields.reply_parameters?.message_id };
        this.messages.push(message);
        return done({ message_id: message.message_id });
      }
      case 'editMessageText': {
        const message = this.messages.find(({ chat, message_id }) => chat === chat_id && message_id === fields.message_id);
        if (!message) return [400, { description: 'Bad Request: message to edit not found' }];
        if (message.text === fields.text && String(message.buttons) === String(buttonsOf(fields))) return [400, { description: 'Bad Request: message is not modified' }];
        Object.assign(message, { text: fields.text, buttons: buttonsOf(fields) });
        return done(true);
      }
      default:
        return [404, { description: 'Not Found' }];
    }
  }
}

/** @param {unknown} result @returns {[number, object]} */
const done = (result) => [200, { result }];
/** @param {number} id */
const person = (id) => ({ id: Number(id), is_bot: false, first_name: `User-${id}` });
/** @param {any} fields @returns {string[]} */
const buttonsOf = (fields) => (fields.reply_markup?.inline_keyboard ?? []).flat().map((/** @type {{callback_data: string}} */ button) => button.callback_data);
