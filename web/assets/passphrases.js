// The passphrases of packets that users sent from this browser. The service shows them to nobody.

import { device, serverNow } from './browser.js';
import { me } from './context.js';

/** @typedef {import('../client/hongbao.js').Packet} Packet */

const name = () => `hongbao.passphrases.${me()}`;
/** By packet: its passphrase, and when it ends. @returns {[string, [string, string]][]} */
const kept = () => Object.entries(JSON.parse(device.get(name()) ?? '{}'));

/** Keeps a packet's passphrase, and forgets those of packets that have ended. @param {Packet} packet @param {string} passphrase */
export function keepPassphrase({ packet_id, expires_at }, passphrase) {
  const others = kept().filter(([, [, end]]) => Date.parse(end) > serverNow());
  device.set(name(), JSON.stringify(Object.fromEntries([...others, [packet_id, [passphrase, expires_at]]])));
}

/** Returns a packet's passphrase, if it was sent from this browser. @param {string} packetId */
export function passphraseOf(packetId) {
  return kept().find(([id]) => id === packetId)?.[1][0];
}
