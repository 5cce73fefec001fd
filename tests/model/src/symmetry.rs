//! Symmetry. States that differ only in the names of users or of runs of settle behave alike, so the checker visits one of
//! them.

use crate::call::Call;
use crate::grab::Grab;
use crate::hot::{Entry, Holds, Hot};
use crate::instance::{GRABS, Instance, PARTS, SETTLERS, Slip, USERS, User};
use crate::ledger::Decision;
use crate::set::Set;
use crate::state::State;

impl Instance {
    /// Whether all users are alike: each grabs from one device, and all probe the same part first.
    pub fn is_symmetric(&self) -> bool {
        self.parts == 1 && (0..).zip(self.grabs).all(|(n, user): (User, _)| n == *user)
    }
}

/// The representative of all states that differ from `state` only in names.
pub fn representative(state: &State) -> State {
    let mut views: [(View, usize); USERS] = std::array::from_fn(|place| (view(state, place), place));
    views.sort_unstable();
    let mut places = [0; USERS];
    (0..).zip(views).for_each(|(place, (_, user))| places[user] = place);
    let mut representative = state.renamed(places);
    representative.settles.sort_unstable();
    representative
}

/// A state from a user's point of view.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
struct View {
    grab: Grab,
    claim: Option<Slip>,
    promised: Option<Slip>,
    decided: Set,
    hot: [Entry; PARTS],
    snapshot: Option<[Entry; PARTS]>,
    drained: [Set; SETTLERS],
    helped: [Set; GRABS],
    is_late: bool,
}

fn view(state: &State, place: usize) -> View {
    let user = User::try_from(place).unwrap_or_default();
    let held = |holds: Holds| holds.each().filter(|(_, holder)| *holder == user).map(|(slip, _)| slip).collect::<Set>();
    let in_hot = |hot: Hot| hot.claims.map(|part| part[place]);
    View {
        grab: state.grabs[place],
        claim: state.ledger.claims[place],
        promised: state.promised[place],
        decided: state.ledger.claimed().into_iter().filter(|slip| state.ledger.owner(*slip) == Some(user)).collect(),
        hot: in_hot(state.hot),
        snapshot: state.snapshot.map(in_hot),
        drained: state.settles.map(|settle| held(settle.holds())),
        helped: state.grabs.map(|grab| held(grab.at.holds())),
        is_late: state.late.is_some_and(|call| call.concerns(user)),
    }
}

impl Call {
    fn concerns(self, who: User) -> bool {
        match self {
            Self::Grab { user, .. } | Self::Claim { user, .. } | Self::PutBack { user, .. } => user == who,
            Self::Reconcile { decided, .. } => decided.each().any(|(_, user)| user == who),
            _ => false,
        }
    }

    fn renamed(self, to: [User; USERS]) -> Self {
        let name = |user: User| to[usize::from(user)];
        match self {
            Self::Grab { part, user } => Self::Grab { part, user: name(user) },
            Self::Claim { slip, user } => Self::Claim { slip, user: name(user) },
            Self::PutBack { slip, user } => Self::PutBack { slip, user: name(user) },
            Self::Reconcile { part, decisions, decided } => {
                Self::Reconcile { part, decisions, decided: decided.renamed(to) }
            }
            other => other,
        }
    }
}

impl Holds {
    /// The same holds with renamed users.
    #[must_use]
    pub fn renamed(self, to: [User; USERS]) -> Self {
        self.map(|user| to[usize::from(user)])
    }
}

impl Hot {
    fn renamed(self, to: [User; USERS]) -> Self {
        Self { claims: self.claims.map(|part| moved(part, to)), ..self }
    }
}

impl State {
    /// The same state with renamed users; `to` has each user's new name.
    #[must_use]
    pub fn renamed(&self, to: [User; USERS]) -> Self {
        let mut state = *self;
        state.ledger.decisions = state.ledger.decisions.map(|decision| match decision {
            Decision::Claimed(user) => Decision::Claimed(to[usize::from(user)]),
            other => other,
        });
        state.ledger.claims = moved(state.ledger.claims, to);
        state.ledger.credited = moved(state.ledger.credited, to);
        state.hot = state.hot.renamed(to);
        state.snapshot = state.snapshot.map(|hot| hot.renamed(to));
        state.grabs = moved(state.grabs, to).map(|grab| Grab { at: grab.at.renamed(to), ..grab });
        state.denied = state.denied.into_iter().map(|user| to[usize::from(user)]).collect();
        state.settles = state.settles.map(|settle| settle.renamed(to));
        state.late = state.late.map(|call| call.renamed(to));
        state.promised = moved(state.promised, to);
        state
    }
}

/// Each user's value at the user's new place.
fn moved<V: Copy>(values: [V; USERS], to: [User; USERS]) -> [V; USERS] {
    let mut moved = values;
    (0..USERS).for_each(|user| moved[usize::from(to[user])] = values[user]);
    moved
}
