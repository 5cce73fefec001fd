// 客服頁面的繁體中文文字，與使用者頁面的文字合用。

/** @type {Record<import('./en.js').Key, import('./en.js').Text>} */
export const texts = {
  'console': '客服', 'nav.find': '搜尋', 'nav.withdrawals': '提領', 'nav.state': '狀態', 'nav.deeds': '操作記錄',
  'notFound.user': '這不是使用者 ID。',
  'none': '沒有', 'yes': '是', 'no': '否', 'any': '全部狀態', 'show': '顯示', 'cancel': '取消', 'continue': '繼續', 'back': '返回', 'close': '關閉', 'optional': '（可不填）', 'working': '正在進行…',
  'at': '時間', 'amount': '金額', 'what': '事項', 'why': '原因', 'side': '對方', 'user': '使用者', 'sender': '發送人', 'packet': '紅包', 'state': '狀態', 'reason': '原因', 'deed': '操作', 'slip': '份',
  'withdrawal': '提領', 'reference': '參考號', 'metadata': '應用程式資料', 'cover': '封面', 'limit': '每人限額', 'limits': '限額', 'starts': '開始', 'ledger': '帳本', 'hot': 'Redis', 'best': '手氣最佳', 'age': '等待',

  'trouble.forbidden': '沒有權限。這需要「{right}」權限。', 'trouble.none': '沒有找到。', 'trouble.route': '部署裡沒有這個介面，可能比這個頁面舊。', 'trouble.request': '請求 {id}',
  'trouble.unreachable': '沒有收到回覆。操作可能已經生效；再試一次也只算一次。',

  'find.title': '是關於什麼的？', 'find.label': '使用者、紅包、參考號、提領、請求編號或金額', 'find.go': '搜尋', 'find.for': '搜尋「{text}」',
  'find.lead': '輸入使用者給您的資訊。只有一個結果時直接開啟。',
  'find.keys': '在任何地方按 / 鍵都能回到搜尋框。',
  'find.looking': '正在找…', 'find.nothing': '沒有', 'find.unknown': '這不是 ID，也不是金額加日期。金額這樣寫：alice 8.88 2026-11-28。',
  'find.count': { other: '{count} 個結果' },
  'find.user': '使用者', 'find.user.example': 'alice', 'find.packet': '紅包', 'find.packet.example': '38FS4S83HF3Y07WMYNH727QYT0 · https://…/p/38FS…', 'find.reference': '一場活動', 'find.reference.example': 'nye-2027',
  'find.movement': '儲值或提領', 'find.movement.example': 'payout-17', 'find.request': '出錯頁面上的編號', 'find.request.example': '1a226e2cb45-8', 'find.amount': '某天的一筆金額', 'find.amount.example': 'alice 8.88 2026-11-28',
  'find.deposit': '儲值', 'find.withdrawal': '提領',
  'find.in.user': '使用者', 'find.in.packet': '紅包', 'find.in.reference': '參考號', 'find.in.movement': '儲值與提領', 'find.in.request': '記錄檔', 'find.in.amount': '這位使用者當天的收支',
  'find.in.pending': '最早的 100 筆待處理提領', 'find.in.open': '100 個進行中的紅包。再寫上使用者，就能查他們的收支',

  'kind.deposit': '儲值', 'kind.withdrawal': '提領', 'kind.return': '提領退還', 'kind.sent': '發出', 'kind.claim': '搶到', 'kind.refund': '退還', 'split.random': '隨機', 'split.equal': '均分', 'eligibility.ticket': '需要入場票',

  'user.wallet': '錢包', 'user.movements': '收支', 'user.sent': '發出的紅包', 'user.won': '搶到的紅包', 'user.withdrawals': '提領', 'user.deeds': '我們做過什麼', 'user.keys': '各項限額已用', 'user.refused': '三天內被拒',
  'user.keys.none': '沒有搶過有限額的紅包。', 'user.day': '只看這一天', 'user.active': '未被停用', 'user.suspended': '已停用：不能發紅包和提領', 'user.suspended.grabs': '已停用：不能發紅包、提領和搶紅包',
  'limits.everybody': '與大家相同', 'limits.set': '單獨限額設於', 'limits.day': '每天 {amount}', 'limits.deposit': '每次儲值 {amount}', 'limit.key': '限額名', 'limit.wins': '次數', 'limit.times': { other: '{count} 次' },
  'refused.nolog': '控制台沒有日誌：請用 --log 啟動。', 'refused.none': '記錄檔裡沒有被拒的請求。',

  'packet.money': '{total} 份中搶走 {claimed} 份：{kept}。剩餘：{left}。已退還：{back}。', 'packet.closed': '由營運者關閉', 'packet.guard': '搶的條件',
  'packet.times': '從發出到結清', 'packet.slips': '各份', 'packet.who': '這位使用者在這裡做了什麼？', 'packet.who.ask': '查',
  'packet.proof': '金額證明', 'packet.proof.hint': '讀取所有份，並用種子重新計算。', 'packet.stores': 'Redis 與帳本對照', 'packet.stores.hint': '讀取兩邊的所有份。', 'packet.compare': '對照',
  'packet.same': '兩邊一致。', 'packet.differ': { other: '{count} 份不一致。' },
  'time.sent': '發出', 'time.starts': '開搶', 'time.closed': '關閉', 'time.expires': '到期', 'time.settled': '結清',
  'share.claimed': '{user} 搶到第 {slip} 份：{amount}。', 'share.held': '第 {slip} 份正為 {user} 保留，還沒有定。下次搶或結算時決定。', 'share.refunded': '第 {slip} 份曾為 {user} 保留，但已退還發送人。',
  'share.none': '{user} 在這個紅包裡沒有得到。', 'share.none.status': '紅包：{status}', 'share.none.free': '現在沒有什麼妨礙他們搶。', 'share.log': '記錄檔裡在這裡被拒的請求',
  'obstacle.not_a_recipient': '紅包是給別人的。', 'obstacle.suspended': '他們被停用，不能搶。', 'obstacle.limit_reached': '他們已搶滿限額。',

  'withdrawals.list': '最早的在前', 'withdrawals.none': '沒有人在等。', 'withdrawals.user': '已結束的提領按使用者列出：請寫上使用者。', 'withdrawals.posted': '已付 {amount}', 'age.any': '不限', 'age.over': '超過 {time}', 'age.is': '已等 {time}',

  'evening.none': '沒有紅包用這個參考號。', 'evening.others': '其他發送人：', 'evening.rounds': { other: '{count} 輪' }, 'evening.won': '搶走', 'evening.won.by': '{amount}，{slips} 份，{count} 人', 'evening.open': '未定', 'evening.back': '已退還', 'evening.file': '財務檔案',

  'state.sending': '發紅包', 'state.webhooks': 'Webhook', 'state.suspended': '被停用的使用者', 'state.limited': '有單獨限額的使用者', 'state.open': '進行中的紅包', 'state.oldest': '最早的待處理提領', 'state.backlog': '等待結算', 'state.parked': '擱置的份',
  'state.audit': '近 24 小時的核對', 'state.audit.run': '核對', 'state.audit.hint': '讀取期間的變化並加總。',
  'sending.on': '可以發紅包。', 'sending.paused': '發紅包已暫停。', 'sending.history': '以前的決定',
  'webhooks.well': '事件正常送達。', 'webhooks.failing': '接收方出錯。', 'webhooks.disabled': '已停用，不送事件。', 'webhooks.answer': '上次失敗', 'webhooks.off': '推遲到', 'webhooks.oldest': '最早的待送', 'webhooks.queue': '佇列',
  'backlog.none': '沒有延誤。', 'backlog.late': '結算有延誤。', 'backlog.holds': '佔位', 'backlog.due': '待退款的紅包',
  'parked.none': '沒有擱置的份。', 'parked.slip': '第 {slip} 份',
  'audit.right': '所有的錢都對得上。', 'audit.wrong': { other: '{count} 處不對。' }, 'audit.packets': '紅包', 'audit.deposited': '儲值', 'audit.withdrawn': '提走', 'audit.wallets': '在錢包裡', 'audit.pending': '在待處理提領裡', 'audit.slips': '在紅包裡',

  'deeds.all': '最新的在前', 'deeds.same': '原本就是如此。', 'deeds.none': '還沒有操作。',
  'deed.suspend': '停用', 'deed.lift': '恢復', 'deed.limit': '設限額', 'deed.deposit': '儲值', 'deed.withdraw': '扣款', 'deed.post': '確認已付', 'deed.void': '作廢', 'deed.close': '關閉紅包', 'deed.close-reference': '全部關閉',
  'deed.pause': '暫停發紅包', 'deed.resume': '恢復發紅包', 'deed.enable-webhooks': '啟用 Webhook', 'deed.disable-webhooks': '停用 Webhook', 'deed.replay': '重試', 'deed.rebuild': '重建 Redis', 'deed.deliver': '投遞事件', 'deed.erase': '刪除資料', 'deed.redeliver': '重新投遞',
  'field.amount': '金額', 'field.reason': '原因', 'field.note': '給使用者的備註', 'field.pending': '只預留', 'field.grabs': '也不能搶', 'field.daily_sent_max': '每天可發', 'field.deposit_max': '單次儲值上限', 'field.balance': '餘額', 'field.suspended': '停用', 'field.paused': '暫停', 'field.enabled': '啟用', 'field.status': '狀態',
  'field.needed': '請填寫。', 'field.characters': '有不能使用的字元。', 'field.between': '{least} 到 {most}。', 'reason.is': '原因：{reason}',
  'done': '完成。', 'done.not': '命令說並非一切正常。', 'done.line': '沒有列出它的記錄。',
  'says.suspend': '從現在起 {user} 不能發紅包和提領。{amount} 留在錢包裡。', 'says.suspend.grabs': '從現在起 {user} 不能發紅包、提領和搶紅包。{amount} 留在錢包裡。', 'says.lift': '{user} 又可以發紅包和提領。',
  'says.limit': '{user} 每天可發：{day}。單次儲值上限：{deposit}。',
  'says.deposit': '{amount} 存入 {user} 的錢包：{before} 變為 {after}。', 'says.withdraw': '{amount} 從 {user} 的錢包扣除：{before} 變為 {after}。', 'says.reserve': '預留 {user} 的 {amount}，直到確認已付或作廢：{before} 變為 {after}。',
  'says.post': '{amount} 已付給 {user}，提領結束。', 'says.post.less': '{amount} 已付給 {user}；{back} 退還錢包。', 'says.void': '{amount} 退還 {user} 的錢包，使用者會看到原因。',
  'says.close': { other: '{back} 退還 {sender}；{count} 人保留 {kept}。不能再重新開啟。' },
  'says.close-reference': { other: '{packets} 個紅包結束。{back} 退還 {sender}；{count} 人保留 {kept}。' },
  'says.pause': '從現在起誰也不能發紅包。搶、退還、儲值和提領照常。', 'says.resume': '大家又可以發紅包。', 'says.enable-webhooks': '又開始送事件，包括等待中的。', 'says.disable-webhooks': '在您再啟用之前，不送任何事件。',
  'says.replay': '重試紅包 {packet} 擱置的份：使用者得到這一份，或者這次保留作廢。', 'says.rebuild': 'Redis 從帳本重新得知紅包 {packet} 的所有決定。不動錢。', 'says.redeliver': '沒能送達的事件再送一次。',
};
