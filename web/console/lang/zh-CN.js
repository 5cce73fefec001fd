// 客服页面的简体中文文字，与用户页面的文字合用。

/** @type {Record<import('./en.js').Key, import('./en.js').Text>} */
export const texts = {
  'console': '客服', 'nav.find': '查找', 'nav.withdrawals': '提现', 'nav.state': '状态', 'nav.deeds': '操作记录',
  'notFound.user': '这不是用户 ID。',
  'none': '没有', 'yes': '是', 'no': '否', 'any': '全部状态', 'show': '显示', 'cancel': '取消', 'continue': '继续', 'back': '返回', 'close': '关闭', 'optional': '（可不填）', 'working': '正在进行…',
  'at': '时间', 'amount': '金额', 'what': '事项', 'why': '原因', 'side': '对方', 'user': '用户', 'sender': '发送人', 'packet': '红包', 'state': '状态', 'reason': '原因', 'deed': '操作', 'slip': '份',
  'withdrawal': '提现', 'reference': '参考号', 'metadata': '应用数据', 'cover': '封面', 'limit': '每人限额', 'limits': '限额', 'starts': '开始', 'ledger': '账本', 'hot': 'Redis', 'best': '手气最佳', 'age': '等待',

  'trouble.forbidden': '没有权限。这需要“{right}”权限。', 'trouble.none': '没有找到。', 'trouble.route': '部署里没有这个接口，可能比这个页面旧。', 'trouble.request': '请求 {id}',
  'trouble.unreachable': '没有收到答复。操作可能已经生效；再试一次也只算一次。',

  'find.title': '是关于什么的？', 'find.label': '用户、红包、参考号、提现、请求号或金额', 'find.go': '查找', 'find.for': '查找“{text}”',
  'find.lead': '输入用户给您的信息。只有一个结果时直接打开。',
  'find.keys': '在任何地方按 / 键都能回到查找框。',
  'find.looking': '正在找…', 'find.nothing': '没有', 'find.unknown': '这不是 ID，也不是金额加日期。金额这样写：alice 8.88 2026-11-28。',
  'find.count': { other: '{count} 个结果' },
  'find.user': '用户', 'find.user.example': 'alice', 'find.packet': '红包', 'find.packet.example': '38FS4S83HF3Y07WMYNH727QYT0 · https://…/p/38FS…', 'find.reference': '一场活动', 'find.reference.example': 'nye-2027',
  'find.movement': '充值或提现', 'find.movement.example': 'payout-17', 'find.request': '出错页面上的编号', 'find.request.example': '1a226e2cb45-8', 'find.amount': '某天的一笔金额', 'find.amount.example': 'alice 8.88 2026-11-28',
  'find.deposit': '充值', 'find.withdrawal': '提现',
  'find.in.user': '用户', 'find.in.packet': '红包', 'find.in.reference': '参考号', 'find.in.movement': '充值与提现', 'find.in.request': '日志', 'find.in.amount': '这位用户当天的流水',
  'find.in.pending': '最早的 100 笔待处理提现', 'find.in.open': '100 个进行中的红包。再写上用户，就能查他们的流水',

  'kind.deposit': '充值', 'kind.withdrawal': '提现', 'kind.return': '提现退回', 'kind.sent': '发出', 'kind.claim': '抢到', 'kind.refund': '退回', 'split.random': '随机', 'split.equal': '均分', 'eligibility.ticket': '需要入场票',

  'user.wallet': '钱包', 'user.movements': '流水', 'user.sent': '发出的红包', 'user.won': '抢到的红包', 'user.withdrawals': '提现', 'user.deeds': '我们做过什么', 'user.keys': '各项限额已用', 'user.refused': '三天内被拒',
  'user.keys.none': '没有抢过有限额的红包。', 'user.day': '只看这一天', 'user.active': '未被停用', 'user.suspended': '已停用：不能发红包和提现', 'user.suspended.grabs': '已停用：不能发红包、提现和抢红包',
  'limits.everybody': '与大家相同', 'limits.set': '单独限额设于', 'limits.day': '每天 {amount}', 'limits.deposit': '每次充值 {amount}', 'limit.key': '限额名', 'limit.wins': '次数', 'limit.times': { other: '{count} 次' },
  'refused.nolog': '控制台没有日志：请用 --log 启动。', 'refused.none': '日志里没有被拒的请求。',

  'packet.money': '{total} 份中抢走 {claimed} 份：{kept}。剩余：{left}。已退回：{back}。', 'packet.closed': '由运营者关闭', 'packet.guard': '抢的条件',
  'packet.times': '从发出到结清', 'packet.slips': '各份', 'packet.who': '这位用户在这里做了什么？', 'packet.who.ask': '查',
  'packet.proof': '金额证明', 'packet.proof.hint': '读取所有份，并用种子重新计算。', 'packet.stores': 'Redis 与账本对照', 'packet.stores.hint': '读取两边的所有份。', 'packet.compare': '对照',
  'packet.same': '两边一致。', 'packet.differ': { other: '{count} 份不一致。' },
  'time.sent': '发出', 'time.starts': '开抢', 'time.closed': '关闭', 'time.expires': '到期', 'time.settled': '结清',
  'share.claimed': '{user} 抢到第 {slip} 份：{amount}。', 'share.held': '第 {slip} 份正为 {user} 保留，还没有定。下次抢或结算时决定。', 'share.refunded': '第 {slip} 份曾为 {user} 保留，但已退回发送人。',
  'share.none': '{user} 在这个红包里没有得到。', 'share.none.status': '红包：{status}', 'share.none.free': '现在没有什么妨碍他们抢。', 'share.log': '日志里在这里被拒的请求',
  'obstacle.not_a_recipient': '红包是给别人的。', 'obstacle.suspended': '他们被停用，不能抢。', 'obstacle.limit_reached': '他们已抢满限额。',

  'withdrawals.list': '最早的在前', 'withdrawals.none': '没有人在等。', 'withdrawals.user': '已结束的提现按用户列出：请写上用户。', 'withdrawals.posted': '已付 {amount}', 'age.any': '不限', 'age.over': '超过 {time}', 'age.is': '已等 {time}',

  'evening.none': '没有红包用这个参考号。', 'evening.others': '其他发送人：', 'evening.rounds': { other: '{count} 轮' }, 'evening.won': '抢走', 'evening.won.by': '{amount}，{slips} 份，{count} 人', 'evening.open': '未定', 'evening.back': '已退回', 'evening.file': '财务文件',

  'state.sending': '发红包', 'state.webhooks': 'Webhook', 'state.suspended': '被停用的用户', 'state.limited': '有单独限额的用户', 'state.open': '进行中的红包', 'state.oldest': '最早的待处理提现', 'state.backlog': '等待结算', 'state.parked': '搁置的份',
  'state.audit': '近 24 小时的核对', 'state.audit.run': '核对', 'state.audit.hint': '读取期间的变化并加总。',
  'sending.on': '可以发红包。', 'sending.paused': '发红包已暂停。', 'sending.history': '以前的决定',
  'webhooks.well': '事件正常送达。', 'webhooks.failing': '接收方出错。', 'webhooks.disabled': '已停用，不送事件。', 'webhooks.answer': '上次失败', 'webhooks.off': '推迟到', 'webhooks.oldest': '最早的待送', 'webhooks.queue': '队列',
  'backlog.none': '没有延误。', 'backlog.late': '结算有延误。', 'backlog.holds': '占位', 'backlog.due': '待退款的红包',
  'parked.none': '没有搁置的份。', 'parked.slip': '第 {slip} 份',
  'audit.right': '所有的钱都对得上。', 'audit.wrong': { other: '{count} 处不对。' }, 'audit.packets': '红包', 'audit.deposited': '充值', 'audit.withdrawn': '提走', 'audit.wallets': '在钱包里', 'audit.pending': '在待处理提现里', 'audit.slips': '在红包里',

  'deeds.all': '最新的在前', 'deeds.same': '原本就是如此。', 'deeds.none': '还没有操作。',
  'deed.suspend': '停用', 'deed.lift': '恢复', 'deed.limit': '设限额', 'deed.deposit': '充值', 'deed.withdraw': '扣款', 'deed.post': '确认已付', 'deed.void': '作废', 'deed.close': '关闭红包', 'deed.close-reference': '全部关闭',
  'deed.pause': '暂停发红包', 'deed.resume': '恢复发红包', 'deed.enable-webhooks': '启用 Webhook', 'deed.disable-webhooks': '停用 Webhook', 'deed.replay': '重试', 'deed.rebuild': '重建 Redis', 'deed.deliver': '投递事件', 'deed.erase': '删除资料', 'deed.redeliver': '重新投递',
  'field.amount': '金额', 'field.reason': '原因', 'field.note': '给用户的备注', 'field.pending': '只预留', 'field.grabs': '也不能抢', 'field.daily_sent_max': '每天可发', 'field.deposit_max': '单次充值上限', 'field.balance': '余额', 'field.suspended': '停用', 'field.paused': '暂停', 'field.enabled': '启用', 'field.status': '状态',
  'field.needed': '请填写。', 'field.characters': '有不能使用的字符。', 'field.between': '{least} 到 {most}。', 'reason.is': '原因：{reason}',
  'done': '完成。', 'done.not': '命令说并非一切正常。', 'done.line': '没有列出它的记录。',
  'says.suspend': '从现在起 {user} 不能发红包和提现。{amount} 留在钱包里。', 'says.suspend.grabs': '从现在起 {user} 不能发红包、提现和抢红包。{amount} 留在钱包里。', 'says.lift': '{user} 又可以发红包和提现。',
  'says.limit': '{user} 每天可发：{day}。单次充值上限：{deposit}。',
  'says.deposit': '{amount} 存入 {user} 的钱包：{before} 变为 {after}。', 'says.withdraw': '{amount} 从 {user} 的钱包扣除：{before} 变为 {after}。', 'says.reserve': '预留 {user} 的 {amount}，直到确认已付或作废：{before} 变为 {after}。',
  'says.post': '{amount} 已付给 {user}，提现结束。', 'says.post.less': '{amount} 已付给 {user}；{back} 退回钱包。', 'says.void': '{amount} 退回 {user} 的钱包，用户会看到原因。',
  'says.close': { other: '{back} 退回 {sender}；{count} 人保留 {kept}。不能再重新打开。' },
  'says.close-reference': { other: '{packets} 个红包结束。{back} 退回 {sender}；{count} 人保留 {kept}。' },
  'says.pause': '从现在起谁也不能发红包。抢、退回、充值和提现照常。', 'says.resume': '大家又可以发红包。', 'says.enable-webhooks': '又开始送事件，包括等待中的。', 'says.disable-webhooks': '在您再启用之前，不送任何事件。',
  'says.replay': '重试红包 {packet} 搁置的份：用户得到这一份，或者这次保留作废。', 'says.rebuild': 'Redis 从账本重新得知红包 {packet} 的所有决定。不动钱。', 'says.redeliver': '没能送达的事件再送一次。',
};
