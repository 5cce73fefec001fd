// Made from openapi.yaml by scripts/console-forms.mjs: make generate ONLY=client

/** @typedef {{name: string, type: 'money' | 'string' | 'boolean', required: boolean, min?: number, max?: number, pattern?: string}} Field */
/** @typedef {{method: string, path: string, fields: Field[]}} Form */

/** @type {Record<string, Form>} */
export const FORMS = {
  deposit: {"method":"PUT","path":"/wallets/{user_id}/deposits/{deposit_id}","fields":[{"name":"amount","type":"money","required":true,"min":1,"max":1000000000000},{"name":"reason","type":"string","required":false,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
  withdraw: {"method":"PUT","path":"/wallets/{user_id}/withdrawals/{withdrawal_id}","fields":[{"name":"amount","type":"money","required":true,"min":1,"max":1000000000000},{"name":"pending","type":"boolean","required":false},{"name":"note","type":"string","required":false,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"},{"name":"reason","type":"string","required":false,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
  postWithdrawal: {"method":"POST","path":"/wallets/{user_id}/withdrawals/{withdrawal_id}/post","fields":[{"name":"amount","type":"money","required":false,"min":1,"max":1000000000000},{"name":"reason","type":"string","required":false,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
  voidWithdrawal: {"method":"POST","path":"/wallets/{user_id}/withdrawals/{withdrawal_id}/void","fields":[{"name":"reason","type":"string","required":false,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
  closePacket: {"method":"POST","path":"/operator/packets/{packet_id}/close","fields":[{"name":"reason","type":"string","required":true,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
  closeReference: {"method":"POST","path":"/operator/references/{reference}/close","fields":[{"name":"reason","type":"string","required":true,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
  liftSuspension: {"method":"DELETE","path":"/operator/users/{user_id}/suspension","fields":[{"name":"reason","type":"string","required":false,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
  suspendUser: {"method":"PUT","path":"/operator/users/{user_id}/suspension","fields":[{"name":"reason","type":"string","required":true,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"},{"name":"grabs","type":"boolean","required":false}]},
  decideSending: {"method":"PUT","path":"/operator/sending","fields":[{"name":"paused","type":"boolean","required":true},{"name":"reason","type":"string","required":false,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
  enableWebhooks: {"method":"PUT","path":"/operator/webhooks","fields":[{"name":"enabled","type":"boolean","required":true},{"name":"reason","type":"string","required":false,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
  setUserLimits: {"method":"PUT","path":"/operator/users/{user_id}/limits","fields":[{"name":"daily_sent_max","type":"money","required":false,"min":1,"max":1000000000000000},{"name":"deposit_max","type":"money","required":false,"min":1,"max":1000000000000},{"name":"reason","type":"string","required":false,"min":1,"max":200,"pattern":"^[^\\x00-\\x1f\\x7f]*$"}]},
};
