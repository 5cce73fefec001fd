// The texts in English. Its keys are those of every language. A comment says in which state of the page the texts below it are shown, up to
// an empty line. A text with `{count}` may have a form for each plural of `Intl.PluralRules`.

/** @typedef {string | {one?: string, other: string}} Text */

const english = {
  // Always: the title, the header and its choices.
  'app.name': 'Red packets',
  'skip': 'Skip to the content',
  'nav.send': 'Send',
  'nav.mine': 'Mine',
  'nav.rush': 'Live demo',
  'nav.main': 'Main',
  'language.label': 'Language',
  'user.label': 'Signed in as',
  'user.other': 'Another name…',
  // Local stack, another name is wanted: the browser asks.
  'user.prompt': 'A user name: letters, digits and signs, no spaces',
  // After a failure that may pass.
  'retry': 'Try again',
  // A screen takes longer than 400 ms.
  'loading': 'Loading…',
  // A list goes on.
  'more': 'Show more',
  // Sent: the button, before and after.
  'copy': 'Copy',
  'copied': 'Copied',

  // Nobody is signed in.
  'signin.title': 'Sign in',
  // Nobody is signed in; Cognito.
  'signin.cognito': 'Sign in to send and open red packets.',
  // Nobody is signed in; the app brings the token.
  'signin.token': 'Waiting for the app to sign you in. Open this page from the app.',
  // The service no longer accepts the token.
  'signin.again': 'You are no longer signed in.',
  // The address has another user’s token or ticket.
  'signin.other': 'This link is somebody else’s',
  'signin.other.text': 'You are signed in as {user}. The link signs you in as {other}: what you do then is in their name.',
  'signin.other.stay': 'Stay {user}',
  'signin.other.take': 'Continue as {other}',
  // 403 user-id-unsupported.
  'signin.unsupported': 'You can’t use this account here',
  'signin.unsupported.text': 'Its user id has characters that red packets don’t accept. Signing in again won’t help. The operator can tell you more.',
  // Cognito, in a browser without storage.
  'signin.storage': 'Signing in leads to another page and back, and your browser keeps nothing for this page meanwhile. Let it store data for this site, or open the page in another browser.',
  // Signed in; the browser keeps nothing.
  'storage.none': 'Your browser keeps nothing for this page. All works until you reload or leave it. Then you choose your language and sign in again.',
  // Signed in; the browser forgets when it is closed.
  'storage.language': 'Your browser will not remember the language that you choose here.',
  // Below either.
  'storage.done': 'OK',

  // The form.
  'send.title': 'Send a red packet',
  'send.random': 'Lucky draw',
  // The form, lucky draw.
  'send.random.hint': 'Every share is random. Opening first or last makes no difference.',
  // The form.
  'send.equal': 'Equal shares',
  // The form, equal shares.
  'send.equal.hint': 'Everybody gets the same.',
  // The form.
  'send.split': 'How it is shared',
  'send.total': 'Total',
  // The form, equal shares.
  'send.per': 'Each',
  'send.per.hint': '{least} to {slip} each',
  // The form.
  'send.count': 'How many',
  'send.count.hint': '1 to {most}',
  // The form, lucky draw.
  'send.total.hint': '{least} to {most}, at most {slip} each',
  // The form, lucky draw, with a valid amount.
  'send.each': 'about {each} each',
  // The form, equal shares, with a valid amount.
  'send.sum': '{amount} in all',
  // The form.
  'send.greeting': 'Greeting',
  'send.greeting.default': 'Best wishes',
  // The form, a greeting of more than 40 characters.
  'send.left': { one: '1 character left', other: '{count} characters left' },
  // The form.
  'send.blessings': 'Blessings',
  'send.cover': 'Cover',
  'send.quick': 'Quick amounts',
  'send.more': 'More options',
  // The form, more options.
  'send.passphrase': 'Passphrase',
  'send.passphrase.hint': 'Only people who know it can open the packet. Leave it empty for none.',
  'send.recipients': 'Only for',
  'send.recipients.hint': 'User names, separated by spaces or commas, up to 500. Leave it empty for anyone with the link.',
  // The form, people are named.
  'send.recipients.count': '{count} of 500',
  'send.spare': { one: 'You named {people}: 1 packet stays unopened and comes back to you.', other: 'You named {people}: {count} packets stay unopened and come back to you.' },
  // The form, more options.
  'send.starts': 'Opens at',
  'send.starts.hint': 'Leave it empty to open at once. At most 7 days ahead.',
  'send.expiry': 'Stays open for',
  // Local stack: the form, more options.
  'send.expiry.10': '10 seconds (to try it)',
  // The form, more options.
  'send.expiry.600': '10 minutes',
  'send.expiry.3600': '1 hour',
  'send.expiry.86400': '24 hours',
  'send.expiry.259200': '3 days',
  'send.refund': 'Whatever is left by then comes back to you.',
  // The form.
  'send.balance': 'Balance',
  // The form, with a valid amount.
  'send.after': '{left} after this',
  // The form, valid.
  'send.submit': 'Put in {amount}',
  // A send has no answer.
  'send.submit.empty': 'Send',
  // The form, without an amount.
  'send.missing.total': 'Enter an amount',
  // The form, without a count.
  'send.missing.count': 'Say how many',
  // A send is under way.
  'send.sending': 'Sealing…',
  // A send has no answer.
  'send.unknown': 'No answer yet. It may have been sent. Trying again can’t send it twice.',
  // A send is under way or has no answer; the browser keeps nothing.
  'send.unkept': 'Stay on this page until the answer is here: your browser can’t keep the send. If you leave earlier, look in “Mine” before you send again.',
  // A send or a withdrawal has no answer.
  'send.forget': 'Back to the form',
  // A send has no answer.
  'send.forget.hint': 'Then look in “Mine” to see whether it was sent.',
  // An amount has two readings.
  'amount.both': '“{written}” could be {whole}, or {before} point {after}. Enter an amount, such as {whole} or {part}.',
  // An amount has too many decimals.
  'amount.fine': '“{written}” is {before} point {after}, and the smallest amount is {least}. Enter an amount, such as {example}',
  // An amount is no number.
  'amount.none': '“{written}” is no amount that we can read. Enter an amount, such as {example}',
  // The form, invalid.
  'send.bad.least': 'At least {least}: {unit} each',
  'send.bad.most': 'At most {most}: {slip} each',
  'send.bad.each': 'From {least} to {slip} each',
  'send.bad.count': 'A whole number from 1 to {most}',
  'send.bad.balance': '{short} more than your balance',
  'send.short': 'Not enough balance',
  // Refused: insufficient-balance.
  'send.bad.poor': 'Your balance no longer covers it. Nothing was sent.',
  // The form, invalid.
  'send.bad.chars': 'At most 64 characters',
  'send.bad.starts': 'A time within the next 7 days',
  'send.bad.recipients': 'Not a user name: {name}',
  'send.bad.recipients.many': 'At most 500 people',
  // Refused: account-suspended; a send, a grab or a withdrawal.
  'send.suspended': 'Your account is suspended',
  'send.suspended.text': 'You can’t do this for now, and nothing has changed. The operator can tell you more.',
  // Refused: daily-limit-exceeded.
  'send.limit': 'That is more than you can send in a day',
  'send.limit.text': 'Nothing was sent. A smaller amount may still fit; the limit starts anew on {time}.',
  // Refused: daily-limit-exceeded, without a time.
  'send.limit.later': 'Nothing was sent. A smaller amount may still fit.',
  // Refused: sending-paused.
  'send.paused': 'Sending is paused. Nothing was sent.',
  // Local stack: the form and Mine.
  'topup': 'Top up {amount}',
  'topup.app': 'Top up',
  'topup.ask': 'The operator can top it up',
  'topup.done': '{amount} added',
  'topup.hint': 'On the local stack anybody is the operator.',

  // Sent, and it can still be opened.
  'sent.title': 'Ready to share',
  // Sent, for anyone.
  'sent.lead': 'Anyone with the link can open it once.',
  // Sent, for named people.
  'sent.lead.some': 'Only the people you named can open it, once each.',
  // Sent, for people with tickets.
  'sent.lead.ticket': 'Only people whom the app lets in can open it, once each.',
  // Sent, with a passphrase.
  'sent.lead.word': 'They need the passphrase too.',
  // Sent, for named people with tickets.
  'sent.lead.both': 'Only people whom you named and whom the app lets in can open it, once each.',
  // Sent, and not open yet.
  'sent.starts': 'It opens on {time}.',
  // Sent, with a passphrase.
  'sent.word.kept': 'Only this browser has it. The service shows it to nobody.',
  'sent.word.lost': 'This browser doesn’t have the passphrase, and the service shows it to nobody.',
  // Sent.
  'sent.link': 'Link',
  'sent.qr': 'QR code of the link',
  // Sent, from an address of this machine.
  'sent.local': 'This address works on this machine only. Another phone can’t open it.',
  // Sent, and the browser refused to copy.
  'sent.uncopied': 'Not copied. The link is selected: copy it yourself.',
  // Sent, and in the chat.
  'sent.text': '{sender} has a red packet for you: “{greeting}”',
  // Sent, in a browser that can share.
  'sent.share': 'Share…',
  // Sent.
  'sent.count': { one: '1 packet', other: '{count} packets' },
  // Sent, and after a rush.
  'sent.open': 'Open the packet',
  // Sent; and the sender’s own packet is over.
  'sent.another': 'Send another',
  // Sent.
  'sent.commitment': 'Proof of fairness',
  'sent.commitment.hint': 'It fixes every amount before anyone opens the packet. When the packet is over, its seed proves it.',

  // A packet.
  'grab.title': 'Red packet from {sender}',
  'grab.from': 'From {sender}',
  // A packet with a passphrase.
  'grab.open': 'Open',
  // A packet that can be opened.
  'grab.openLabel': 'Open the red packet from {sender}',
  // A grab is under way.
  'grab.opening': 'Opening…',
  // A grab or a packet takes longer than 2.5 s.
  'grab.slow': 'No answer yet',
  // A grab has no answer yet.
  'grab.trying': 'Trying… We don’t know yet whether you got one.',
  // A packet with a passphrase.
  'grab.passphrase': 'Passphrase',
  'grab.passphrase.ask': 'Say the passphrase to open it.',
  // Refused: wrong-passphrase.
  'grab.passphrase.wrong': 'Wrong passphrase',
  // Refused: too-many-requests, for passphrases.
  'grab.passphrase.wait': { one: 'Too many tries. Try again in 1 second.', other: 'Too many tries. Try again in {count} seconds.' },
  // A packet of which some are opened.
  'grab.left': { one: '1 left', other: '{count} left' },
  // A packet with a limit, before and after a win.
  'grab.winsLeft': { one: '1 win left for you', other: '{count} wins left for you' },
  'grab.amountLeft': 'You can still win {amount}',
  'grab.bothLeft': { one: '1 win left for you, up to {amount}', other: '{count} wins left for you, up to {amount}' },
  // Lost: limit_reached, and another slip may fit.
  'grab.limit.slip': 'This one was more than you can still win',
  // The user’s limit is reached.
  'grab.limit': 'You’ve reached your limit',
  'grab.limit.text': { one: 'Each person can win once in this event.', other: 'Each person can win {count} times in this event.' },
  'grab.limit.amount': 'Each person can win up to {amount} in this event.',
  // After it, when the next round is open.
  'grab.next': 'The next round is open',
  // After it, before the next round.
  'grab.next.in': 'The next round starts in {time}',
  // A packet that can be opened.
  'grab.ends': 'ends in {time}',
  // A packet that is not open yet.
  'grab.starts': 'Opens in',
  'grab.startsAt': 'Opens {time}',
  // A packet with a ticket for later.
  'grab.turn': 'Your turn in',
  'grab.turnAt': 'Your turn comes {time}',
  // A packet has just opened.
  'grab.now': 'Open it now!',
  // A countdown of a day or more.
  'grab.days': { one: '1 day {time}', other: '{count} days {time}' },
  // Won.
  'grab.got': 'You got',
  'grab.saved': 'It’s in your balance',
  // Won the smallest unit, of a larger packet.
  'grab.least': 'The smallest share there is. Somebody has to carry the luck!',
  // Lost: sold_out.
  'grab.soldOut': 'They’re all gone',
  'grab.soldOut.text': 'Better luck next time!',
  // Lost, and all are gone.
  'grab.goneIn': { one: '1 packet, gone in {time}', other: '{count} packets, gone in {time}' },
  // Lost: expired.
  'grab.expired': 'Too late',
  'grab.expired.text': 'This packet has expired. What was left goes back to the sender.',
  // Lost: closed.
  'grab.closed': 'This packet was closed',
  'grab.closed.text': 'What was left goes back to the sender.',
  // The sender’s own packet is over.
  'grab.own.taken': 'People opened {claimed} of {total} and got {amount}',
  // The sender’s own packet is over and not settled.
  'grab.own.left': '{amount} was left. It comes back to you shortly',
  // The sender’s own packet is settled.
  'grab.own.back': '{amount} came back to you',
  // Lost: an outcome that the page does not know.
  'grab.noSlip': 'Nothing this time',
  // Lost.
  'grab.others': 'See the others’ luck',
  // Lost, and not the sender.
  'grab.sendOne': 'Send one yourself',
  // The sender’s own packet, for others.
  'grab.watch': 'You chose who can open it, and you are not among them. Watch them open it here.',
  // The same, of a packet with tickets.
  'grab.watch.ticket': 'The app decides who can open it, and it hasn’t let you in. Watch them open it here.',
  // Refused: not a recipient.
  'grab.notForYou': 'This packet isn’t for you',
  // Refused: ticket-expired.
  'grab.ticket': 'Your pass has expired',
  // Refused: ticket-required or ticket-invalid.
  'grab.ticketed': 'The app decides who can open this packet',
  'grab.ticket.text': 'Open the packet again from where you got it.',
  // Refused: not a recipient.
  'grab.notForYou.text': 'The sender chose who can open it.',
  // 404.
  'grab.notFound': 'We can’t find this packet',
  'grab.notFound.text': 'Check the link.',
  // The browser is offline.
  'grab.offline': 'You’re offline',
  'grab.offline.text': 'We’ll carry on by ourselves as soon as you’re back.',
  // A grab or a read has no answer.
  'grab.noAnswer': 'No answer',
  // A grab has no answer.
  'grab.noAnswer.text': 'We don’t know yet whether you got one. Try again: you can’t get it twice.',
  // 429 or 503.
  'grab.unavailable': 'Very busy just now',
  // 429, 503, or a read has no answer.
  'grab.unavailable.text': 'Nothing is lost. Try again in a moment.',
  // An answer that the page does not know.
  'grab.broken': 'Something went wrong',
  'grab.broken.text': 'Please try again. If it stays, give this number to the operator: {id}',
  // The list of a packet.
  'grab.who': 'Who got what',
  'grab.progress': '{claimed} of {total} opened, {amount} of {sum}',
  // The list, empty, while it can be opened.
  'grab.nobody': 'Nobody yet',
  // The list, empty, and it is over.
  'grab.nobody.over': 'Nobody opened it',
  // The list: the sender's own packet, for named people.
  'grab.absent': 'Not opened yet:',
  'grab.absent.over': 'Didn’t open it:',
  // The largest amount of a packet whose slips are all gone.
  'grab.best': 'Luckiest',
  // The list: the user’s own row.
  'grab.you': 'you',
  // The result, before the seed is out.
  'grab.fair': 'Fair',
  // The result, with the seed.
  'grab.fair.check': 'Verify fairness',
  'grab.verify': 'Verify fairness: every amount was fixed beforehand',
  // The result, before the seed is out.
  'grab.verify.later': 'Every amount was fixed beforehand. You can check it when the packet is over.',
  // A packet that can be opened: its sender.
  'grab.share': 'Share',
  // The list of a settled packet, for others than its sender.
  'grab.refunded': '{amount} went back to the sender',

  // Mine: the state of a packet that was sent.
  'status.scheduled': 'Not open yet',
  'status.open': 'Open',
  'status.sold_out': 'All gone',
  'status.expired': 'Expired',
  'status.closed': 'Closed',
  'status.settled': 'Over',

  // Mine.
  'mine.title': 'Mine',
  'mine.balance': 'Balance',
  // Mine, a withdrawal is pending.
  'mine.pending': '{amount} pending',
  // Mine.
  'mine.sent': 'Sent',
  'mine.received': 'Received',
  'mine.statement': 'Statement',
  'mine.totals': { one: '1 packet, {amount}', other: '{count} packets, {amount}' },
  // Mine, an empty list.
  'mine.sent.none': 'You haven’t sent a packet yet.',
  'mine.received.none': 'You haven’t opened a packet yet.',
  'mine.statement.none': 'No money has moved yet.',
  // Mine, sent.
  'mine.claimed': '{claimed} of {total} opened',
  // Mine, sent; and the list of the sender’s own packet: money came back.
  'mine.refunded': '{amount} came back',
  // The statement.
  'mine.month': 'in {in}, out {out}',
  // The statement, more came back than was sent.
  'mine.month.back': 'in {in}, out {out}, {back} came back net',
  // The end of a list.
  'mine.end': 'That’s all',
  // The statement.
  'movement.deposit': 'Money in',
  'movement.withdrawal': 'Withdrawal',
  'movement.sent': 'Packet sent',
  'movement.claim': 'Packet from {sender}',
  'movement.refund': 'Came back unopened',
  'movement.return': 'Back from a withdrawal',
  // The statement: the state of a withdrawal.
  'withdrawal.pending': 'Pending',
  'withdrawal.posted': 'Paid out',
  'withdrawal.voided': 'Came back',
  // Mine, where users may withdraw.
  'withdraw.amount': 'Amount to withdraw',
  'withdraw.hint': '{least} to {most}',
  'withdraw.least': 'The least you can withdraw is {least}',
  'withdraw.terms': 'The operator can tell you where the money goes, how long it takes, and what it costs.',
  'withdraw.submit': 'Withdraw',
  // A withdrawal is under way.
  'withdraw.asking': 'Asking…',
  // A withdrawal is asked for.
  'withdraw.done': 'You asked for {amount}. The statement shows how far it is.',
  // A withdrawal has no answer.
  'withdraw.unknown': 'No answer yet. It may have been asked for. Trying again can’t take it twice.',
  // A withdrawal is under way or has no answer; the browser keeps nothing.
  'withdraw.unkept': 'Stay on this page until the answer is here: your browser can’t keep the request. If you leave earlier, look in the statement before you ask again.',
  // A withdrawal has no answer.
  'withdraw.forget.hint': 'Then look in the statement to see whether it was asked for.',
  // Refused: insufficient-balance.
  'withdraw.poor': 'Your balance no longer covers it. Nothing was taken.',
  // Refused: too-many-pending.
  'withdraw.many': { one: 'You already have a pending withdrawal. Nothing was taken. Ask again when it has ended.', other: 'You already have {count} pending withdrawals. Nothing was taken. Ask again when one of them has ended.' },
  // Refused: idempotency-key-reused.
  'withdraw.reused': 'You asked for it before with another amount. Nothing more was taken.',
  // Refused: forbidden.
  'withdraw.none': 'You can’t ask for withdrawals here.',

  // Verify.
  'verify.title': 'Is it fair?',
  'verify.lead': 'Your browser works out every amount again from the seed, with code of its own, and compares it with what was paid.',
  'verify.packet': 'Packet (its number or link)',
  // Verify, with a result.
  'verify.cap': 'Most that one could hold',
  'verify.version': 'Version of the method',
  // Verify.
  'verify.run': 'Check it',
  // Verify, under way.
  'verify.running': 'Working it out…',
  // Verify, before the seed is out.
  'verify.early': 'The seed isn’t out yet: it comes when the packet is over.',
  // Verify, all agrees.
  'verify.fair': 'Proved',
  'verify.fair.text': 'These amounts were fixed before anyone opened the packet, and every one was paid as fixed.',
  // Verify, something differs.
  'verify.unfair': 'It doesn’t agree',
  'verify.unfair.text': 'At least one of the checks below fails.',
  // Verify, with a result: each check, met or not.
  'verify.holds': 'holds',
  'verify.fails': 'fails',
  'verify.check.commitment': 'Seed and terms give the proof of fairness',
  'verify.check.slips': 'Every share was paid as worked out',
  'verify.check.complete': 'The list of who got what is complete',
  'verify.check.sums': 'Paid and left over add up to the total',
  // Verify, with a result: the table.
  'verify.slip': 'No.',
  'verify.computed': 'Due',
  'verify.paid': 'Paid',
  'verify.to': 'To',
  'verify.refunded': 'nobody',
  // Verify, with a result.
  'verify.seed': 'Seed',
  // Verify, on an address without https.
  'verify.insecure': 'Browsers work out SHA-256 only for pages that come by https or from this machine.',
  // Verify, the packet’s terms make no sense.
  'verify.error.version': 'This page doesn’t know that version.',
  'verify.error.too-much': 'The total is over the limit.',
  'verify.error.too-little': 'There is less than the smallest unit for each.',
  'verify.error.seed': 'The seed isn’t 64 hex digits.',
  // Verify.
  'verify.not': 'It doesn’t prove who came first. It proves that nobody chose the amounts afterwards.',

  // Local stack: the rush.
  'rush.title': 'Live demo',
  'rush.lead': 'One packet, and a crowd that opens it: all of it inside this machine.',
  'rush.users': 'People',
  'rush.slips': 'Packets',
  'rush.total': 'Total',
  'rush.over': 'They arrive',
  'rush.over.0': 'all at once',
  'rush.over.4000': 'within 4 seconds',
  'rush.over.10000': 'within 10 seconds',
  'rush.start': 'Go',
  // The rush, under way.
  'rush.running': 'Opening…',
  // The rush, under way and over.
  'rush.answered': 'answered',
  'rush.perSecond': 'a second',
  'rush.got': 'got one',
  'rush.lost': 'came too late',
  'rush.failed': 'failed',
  'rush.latency': 'Latency',
  'rush.latency.label': 'How long an answer took: {p50} at the median, {p99} at the 99th percentile',
  'rush.throughput': 'Throughput',
  'rush.throughput.label': 'Answers, moment by moment',
  'rush.amounts': 'Amounts',
  'rush.amounts.label': 'How many shares hold how much',
  'rush.sum': 'Does it add up?',
  // The rush, over.
  'rush.sum.in': 'came in',
  'rush.sum.wallets': 'in {count} wallets',
  'rush.sum.left': 'not opened',
  'rush.balanced': 'Nothing is missing',
  'rush.unbalanced': 'It doesn’t add up',
  // The rush, under way and over.
  'rush.median': 'median',
  'rush.mean': 'on average',
  'rush.least': 'least {amount}',
  'rush.best': 'most {amount}',
  // The rush broke off.
  'rush.broken': 'The demo broke off.',
  // The rush, invalid.
  'rush.bad': '1 to 5,000 people, 1 to 1,000 packets, and a total that they can hold.',
  // The rush, under way.
  'rush.slipsLeft': { one: '1 packet left', other: '{count} packets left' },

  // An address that the page does not know.
  'notFound.title': 'No such page',
  // Below it, and below failures that do not pass.
  'notFound.home': 'Send a red packet',
};

/** @typedef {keyof typeof english} Key */

/** @type {Record<Key, Text>} */
export const texts = english;
