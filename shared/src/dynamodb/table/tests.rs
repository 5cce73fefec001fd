use super::*;
use crate::dynamodb::throttled::Throttled;

#[tokio::test]
async fn a_batch_says_what_the_table_was_too_busy_for() {
    let table = SdkTable::new(Throttled::default().client(), "t".to_owned());
    let [free, busy, broken] = ["free", "busy", "broken"].map(|pk| Key { pk: pk.to_owned(), sk: "b".to_owned() });
    let Batch { items, left } = table.batch_get(vec![free, busy.clone(), broken.clone()]).await.unwrap();
    assert_eq!((items.iter().map(keys::of_item).collect::<Vec<_>>(), left), (vec![Some(broken)], vec![busy]));
}
