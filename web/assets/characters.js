// The twelve characters of the local stack, each under a sign of the zodiac: an example of the hook that `profiles` names in config.json.

/** Names by id, in English, in simplified and in traditional Chinese. @type {Record<string, [string, string, string]>} */
const NAMES = {
  alice: ['Alice', '艾莉', '艾莉'],
  bob: ['Bob', '阿宝', '阿寶'],
  carol: ['Carol', '可心', '可心'],
  dave: ['Dave', '大卫', '大衛'],
  erin: ['Erin', '艾琳', '艾琳'],
  frank: ['Frank', '方凯', '方凱'],
  grace: ['Grace', '雅慧', '雅慧'],
  heidi: ['Heidi', '海笛', '海笛'],
  ivan: ['Ivan', '一凡', '一凡'],
  judy: ['Judy', '朱迪', '朱迪'],
  kevin: ['Kevin', '凯文', '凱文'],
  lily: ['Lily', '莉莉', '莉莉'],
};
const LANGUAGES = ['en', 'zh-CN', 'zh-TW'];

/** @type {import('./people.js').Hook} */
export const profiles = (ids, language) => {
  const at = Math.max(0, LANGUAGES.indexOf(language));
  const form = language === 'zh-TW' ? '-tw' : '';
  return Object.fromEntries(ids.filter((id) => Object.hasOwn(NAMES, id)).map((id) => [id, { name: NAMES[id]?.[at] ?? id, picture: `assets/characters.svg#${id}${form}` }]));
};
