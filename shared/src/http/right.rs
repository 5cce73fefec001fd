//! Which rights an operator's key needs, where no IAM decides it. template.yaml has the same rights as policies; a test compares the two.

use super::route::Operation;
use crate::domain::Right;

/// The rights of which one is enough for an operation. A user's operation has none.
#[must_use]
pub const fn rights_for(operation: Operation) -> &'static [Right] {
    use Operation as O;
    match operation {
        O::SendPacket
        | O::GrabPacket
        | O::GetPacket
        | O::ListPacketClaims
        | O::GetMyWallet
        | O::ListMyPackets
        | O::ListMyClaims
        | O::ListMyMovements
        | O::AskWithdrawal
        | O::Preflight => &[],
        O::SendPacketForUser | O::GrabPacketForUser => &[Right::Users],
        O::ListPacketsOfUser | O::GetPacketForUser | O::ListPacketClaimsForUser | O::ListClaimsOfUser => {
            &[Right::Read, Right::Users]
        }
        O::GetWallet | O::ListMovements | O::GetWithdrawal | O::ListWithdrawals => &[Right::Read, Right::Payout],
        O::PostWithdrawal | O::VoidWithdrawal => &[Right::Money, Right::Payout],
        O::FindPackets
        | O::GetAnyPacket
        | O::ListAnyPacketClaims
        | O::GetShare
        | O::ReportClaims
        | O::GetReference
        | O::GetUserLimits
        | O::GetSending
        | O::FindMovements
        | O::ListDeeds
        | O::ListUsers
        | O::ListWins => &[Right::Read],
        O::Deposit
        | O::Withdraw
        | O::ClosePacket
        | O::CloseReference
        | O::SuspendUser
        | O::LiftSuspension
        | O::SetUserLimits
        | O::DecideSending => &[Right::Money],
        O::GetWebhooks => &[Right::Read, Right::Webhooks],
        O::EnableWebhooks => &[Right::Webhooks],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ROUTES;
    use crate::http::test_policies::{allows, policy};

    #[test]
    fn a_right_allows_what_its_policy_in_the_template_allows() {
        for (right, name) in Right::ALL {
            let policy = policy(name);
            for route in ROUTES {
                let is_allowed = rights_for(route.operation).contains(&right);
                assert_eq!(
                    is_allowed,
                    allows(policy, route.method, route.path),
                    "{name}: {} {}",
                    route.method,
                    route.path
                );
            }
        }
    }
}
