// What the browser keeps for the page. Its storages may be null (a web view's default), throw when they are touched, or refuse to
// write. Then the page keeps it in memory, until it is reloaded or left.

const PROBE = 'hongbao.probe';

class Store {
  #name;
  /** What the storage did not keep, and null for what it did not remove. @type {Map<string, string | null>} */
  #memory = new Map();

  /** @param {'localStorage' | 'sessionStorage'} name */
  constructor(name) {
    this.#name = name;
    /** Whether a reload finds what is kept here. */
    this.lasts = this.set(PROBE, 'x');
    this.remove(PROBE);
  }

  /** Null or a getter that throws, in some browsers: every use is in a `try`. @returns {Storage} */
  get #storage() {
    return globalThis[this.#name];
  }

  /** @param {string} key @returns {string | null} */
  get(key) {
    if (this.#memory.has(key)) return this.#memory.get(key) ?? null;
    try {
      return this.#storage.getItem(key);
    } catch {
      return null;
    }
  }

  /** @param {string} key @param {string} value @returns {boolean} whether a reload finds it */
  set(key, value) {
    try {
      this.#storage.setItem(key, value);
      if (this.#storage.getItem(key) === value) {
        this.#memory.delete(key);
        return true;
      }
    } catch {
      // Kept in memory below.
    }
    // Otherwise an older value would be there after a reload.
    this.remove(key);
    this.#memory.set(key, value);
    return false;
  }

  /** @param {string} key */
  remove(key) {
    this.#memory.set(key, null);
    try {
      this.#storage.removeItem(key);
      this.#memory.delete(key);
    } catch {
      // Removed from what the page reads.
    }
  }
}

/** For the tab's life: no other tab and no later visitor can read it. */
export const tab = new Store('sessionStorage');
/** For all tabs, and for the next visit. */
export const device = new Store('localStorage');
