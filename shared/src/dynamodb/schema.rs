use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};

use crate::ledger::keys::{DUE_AT, DUE_INDEX, DUE_SHARD, PK, SK};

/// Creates the table `name` if it does not exist, for local stacks and tests. On AWS `template.yaml` creates it; a test
/// compares the two.
pub async fn create_table(client: &Client, name: &str) -> Result<(), BoxError> {
    let attribute = |name: &str, kind: ScalarAttributeType| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()
    };
    let key = |name: &str, kind: KeyType| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    let index = GlobalSecondaryIndex::builder()
        .index_name(DUE_INDEX)
        .key_schema(key(DUE_SHARD, KeyType::Hash)?)
        .key_schema(key(DUE_AT, KeyType::Range)?)
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()?;
    let request = client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute(PK, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(SK, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(DUE_SHARD, ScalarAttributeType::N)?)
        .attribute_definitions(attribute(DUE_AT, ScalarAttributeType::N)?)
        .key_schema(key(PK, KeyType::Hash)?)
        .key_schema(key(SK, KeyType::Range)?)
        .global_secondary_indexes(index);
    match request.send().await {
        Ok(_) => Ok(()),
        Err(error)
            if error.as_service_error().is_some_and(
                aws_sdk_dynamodb::operation::create_table::CreateTableError::is_resource_in_use_exception,
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
