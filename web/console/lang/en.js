// The texts of the support page in English, beside those of the users' page. Texts of one group may share a line.

/** @typedef {import('../../assets/lang/en.js').Text} Text */

const english = {
  'console': 'Support', 'nav.find': 'Search', 'nav.withdrawals': 'Withdrawals', 'nav.state': 'State', 'nav.deeds': 'Deeds',
  'notFound.user': 'That is no user id.',
  'none': 'None', 'yes': 'yes', 'no': 'no', 'any': 'any state', 'show': 'Show', 'cancel': 'Cancel', 'continue': 'Continue', 'back': 'Back', 'close': 'Close', 'optional': '(optional)', 'working': 'Under way…',
  'at': 'Time', 'amount': 'Amount', 'what': 'What', 'why': 'Why', 'side': 'Other side', 'user': 'User', 'sender': 'Sender', 'packet': 'Packet', 'state': 'State', 'reason': 'Reason', 'deed': 'Deed', 'slip': 'Slip',
  'withdrawal': 'Withdrawal', 'reference': 'Reference', 'metadata': 'App’s data', 'cover': 'Cover', 'limit': 'Limit per user', 'limits': 'Limits', 'starts': 'Start', 'ledger': 'Ledger', 'hot': 'Redis', 'best': 'luckiest', 'age': 'Waits',

  'trouble.forbidden': 'Not allowed. This needs the right “{right}”.', 'trouble.none': 'There is none.', 'trouble.route': 'The deployment has no such route. It may be older than this page.', 'trouble.request': 'Request {id}',
  'trouble.unreachable': 'No answer came. What you did may have happened; trying again does it only once.',

  'find.title': 'What is it about?', 'find.label': 'User, packet, reference, withdrawal, request or amount', 'find.go': 'Search', 'find.for': 'Search for “{text}”',
  'find.lead': 'Type what the user gave you. A single hit opens at once.',
  'find.keys': 'The key / leads to the search box from everywhere.',
  'find.looking': 'Looking…', 'find.nothing': 'nothing', 'find.unknown': 'That is no id, and no amount with a day. An amount looks like this: alice 8.88 2026-11-28.',
  'find.count': { one: '1 hit', other: '{count} hits' },
  'find.user': 'A user', 'find.user.example': 'alice', 'find.packet': 'A packet', 'find.packet.example': '38FS4S83HF3Y07WMYNH727QYT0 · https://…/p/38FS…', 'find.reference': 'An evening', 'find.reference.example': 'nye-2027',
  'find.movement': 'A deposit or withdrawal', 'find.movement.example': 'payout-17', 'find.request': 'A number on an error page', 'find.request.example': '1a226e2cb45-8', 'find.amount': 'An amount on a day', 'find.amount.example': 'alice 8.88 2026-11-28',
  'find.deposit': 'Deposit', 'find.withdrawal': 'Withdrawal',
  'find.in.user': 'Users', 'find.in.packet': 'Packets', 'find.in.reference': 'References', 'find.in.movement': 'Deposits and withdrawals', 'find.in.request': 'The log', 'find.in.amount': 'The user’s movements of that day',
  'find.in.pending': 'The 100 oldest pending withdrawals', 'find.in.open': '100 open packets. Name the user too, to search their movements',

  'kind.deposit': 'Deposit', 'kind.withdrawal': 'Withdrawal', 'kind.return': 'Back from a withdrawal', 'kind.sent': 'Sent', 'kind.claim': 'Won', 'kind.refund': 'Refund', 'split.random': 'Random', 'split.equal': 'Equal', 'eligibility.ticket': 'needs a ticket',

  'user.wallet': 'Wallet', 'user.movements': 'Movements', 'user.sent': 'Packets sent', 'user.won': 'Slips won', 'user.withdrawals': 'Withdrawals', 'user.deeds': 'What we did', 'user.keys': 'Used of each limit', 'user.refused': 'Refused in three days',
  'user.keys.none': 'They won nothing that has a limit.', 'user.day': 'Only this day', 'user.active': 'Not suspended', 'user.suspended': 'Suspended: may not send or withdraw', 'user.suspended.grabs': 'Suspended: may not send, withdraw or grab',
  'limits.everybody': 'as for everybody', 'limits.set': 'Own limits set', 'limits.day': '{amount} a day', 'limits.deposit': '{amount} a deposit', 'limit.key': 'Key', 'limit.wins': 'Wins', 'limit.times': { one: '1 win', other: '{count} wins' },
  'refused.nolog': 'The console has no log: start it with --log.', 'refused.none': 'The log has no refusal.',

  'packet.money': '{claimed} of {total} slips won: {kept}. Left: {left}. Gone back: {back}.', 'packet.closed': 'Closed by the operator', 'packet.guard': 'Needed to grab',
  'packet.times': 'From send to settlement', 'packet.slips': 'Slips', 'packet.who': 'What did this user do here?', 'packet.who.ask': 'Ask',
  'packet.proof': 'Proof of the split', 'packet.proof.hint': 'Reads all slips, and works each out again from the seed.', 'packet.stores': 'Redis beside the ledger', 'packet.stores.hint': 'Reads all slips in both stores.', 'packet.compare': 'Compare',
  'packet.same': 'Both stores agree.', 'packet.differ': { one: '1 slip differs.', other: '{count} slips differ.' },
  'time.sent': 'Sent', 'time.starts': 'Grabs begin', 'time.closed': 'Closed', 'time.expires': 'Expires', 'time.settled': 'Settled',
  'share.claimed': '{user} has slip {slip}: {amount}.', 'share.held': 'Slip {slip} is held for {user}, and not decided yet. Their next grab or settle decides it.', 'share.refunded': 'Slip {slip} was held for {user}, but it went back to the sender.',
  'share.none': '{user} has nothing of this packet.', 'share.none.status': 'The packet: {status}', 'share.none.free': 'Nothing keeps them from winning now.', 'share.log': 'Refused here, as the log has it',
  'obstacle.not_a_recipient': 'The packet is for others.', 'obstacle.suspended': 'They are suspended, and may not grab.', 'obstacle.limit_reached': 'They have won all that the limit allows.',

  'withdrawals.list': 'The oldest first', 'withdrawals.none': 'Nobody waits.', 'withdrawals.user': 'Those that have ended are listed by user: name one.', 'withdrawals.posted': '{amount} paid out', 'age.any': 'any time', 'age.over': 'over {time}', 'age.is': 'for {time}',

  'evening.none': 'No packet has this reference.', 'evening.others': 'Other senders:', 'evening.rounds': { one: '1 round', other: '{count} rounds' }, 'evening.won': 'Won', 'evening.won.by': '{amount} in {slips} slips by {count} people', 'evening.open': 'Undecided', 'evening.back': 'Gone back', 'evening.file': 'File for finance',

  'state.sending': 'Sending', 'state.webhooks': 'Webhooks', 'state.suspended': 'Suspended users', 'state.limited': 'Users with limits of their own', 'state.open': 'Open packets', 'state.oldest': 'Oldest pending withdrawal', 'state.backlog': 'Waiting to be settled', 'state.parked': 'Parked holds',
  'state.audit': 'Audit of the last 24 hours', 'state.audit.run': 'Audit', 'state.audit.hint': 'Reads what changed since, and adds it up.',
  'sending.on': 'Packets can be sent.', 'sending.paused': 'Sending is paused.', 'sending.history': 'Decisions before',
  'webhooks.well': 'Events are delivered.', 'webhooks.failing': 'The receiver fails.', 'webhooks.disabled': 'No event is delivered: disabled.', 'webhooks.answer': 'Last failure', 'webhooks.off': 'Put off until', 'webhooks.oldest': 'Oldest waiting', 'webhooks.queue': 'Queue',
  'backlog.none': 'Nothing is late.', 'backlog.late': 'Settling is late.', 'backlog.holds': 'Holds', 'backlog.due': 'Refunds',
  'parked.none': 'No hold is parked.', 'parked.slip': 'slip {slip}',
  'audit.right': 'All money is accounted for.', 'audit.wrong': { one: '1 thing is wrong.', other: '{count} things are wrong.' }, 'audit.packets': 'Packets', 'audit.deposited': 'Deposited', 'audit.withdrawn': 'Withdrawn', 'audit.wallets': 'In wallets', 'audit.pending': 'In pending withdrawals', 'audit.slips': 'In packets',

  'deeds.all': 'The newest first', 'deeds.same': 'It was so already.', 'deeds.none': 'No deed yet.',
  'deed.suspend': 'Suspend', 'deed.lift': 'Lift the suspension', 'deed.limit': 'Set limits', 'deed.deposit': 'Deposit', 'deed.withdraw': 'Withdraw', 'deed.post': 'Post', 'deed.void': 'Void', 'deed.close': 'Close the packet', 'deed.close-reference': 'Close all',
  'deed.pause': 'Pause sending', 'deed.resume': 'Resume sending', 'deed.enable-webhooks': 'Enable webhooks', 'deed.disable-webhooks': 'Disable webhooks', 'deed.replay': 'Try again', 'deed.rebuild': 'Rebuild Redis', 'deed.deliver': 'Deliver events', 'deed.erase': 'Erase data', 'deed.redeliver': 'Redeliver',
  'field.amount': 'Amount', 'field.reason': 'Reason', 'field.note': 'Note for the user', 'field.pending': 'Only reserve it', 'field.grabs': 'May not grab either', 'field.daily_sent_max': 'May send a day', 'field.deposit_max': 'Most of one deposit', 'field.balance': 'Balance', 'field.suspended': 'Suspended', 'field.paused': 'Paused', 'field.enabled': 'Enabled', 'field.status': 'State',
  'field.needed': 'Fill this in.', 'field.characters': 'It has characters that can’t be taken.', 'field.between': 'From {least} to {most}.', 'reason.is': 'Reason: {reason}',
  'done': 'Done.', 'done.not': 'The command says that not all is well.', 'done.line': 'No line of it is listed.',
  'says.suspend': '{user} can neither send nor withdraw from now on. {amount} stay in their wallet.', 'says.suspend.grabs': '{user} can neither send, withdraw nor grab from now on. {amount} stay in their wallet.', 'says.lift': '{user} can send and withdraw again.',
  'says.limit': '{user} may send this much a day: {day}. One deposit at most: {deposit}.',
  'says.deposit': '{amount} go into the wallet of {user}: {before} become {after}.', 'says.withdraw': '{amount} leave the wallet of {user}: {before} become {after}.', 'says.reserve': '{amount} of {user} are reserved until you post or void it: {before} become {after}.',
  'says.post': '{amount} were paid out to {user}. The withdrawal ends.', 'says.post.less': '{amount} were paid out to {user}; {back} go back to their wallet.', 'says.void': '{amount} go back to the wallet of {user}, who sees the reason.',
  'says.close': { one: '{back} go back to {sender}; 1 person keeps {kept}. Nobody can open it again.', other: '{back} go back to {sender}; {count} people keep {kept}. Nobody can open it again.' },
  'says.close-reference': { one: '{packets} packets end. {back} go back to {sender}; 1 person keeps {kept}.', other: '{packets} packets end. {back} go back to {sender}; {count} people keep {kept}.' },
  'says.pause': 'From now on nobody can send a packet. Grabs, refunds, deposits and withdrawals go on.', 'says.resume': 'Everybody can send packets again.', 'says.enable-webhooks': 'Events are delivered again, also those that wait.', 'says.disable-webhooks': 'No event is delivered until you enable it again.',
  'says.replay': 'The parked hold of packet {packet} is tried again: its user gets the slip, or the hold is void.', 'says.rebuild': 'Redis learns all decisions of packet {packet} anew from the ledger. No money moves.', 'says.redeliver': 'Events that could not be delivered are sent again.',
};

/** @typedef {keyof typeof english} Key */

/** @type {Record<Key, Text>} */
export const texts = english;
