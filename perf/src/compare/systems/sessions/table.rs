//! The sessions of a server, found by their connection ids.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddrV4;

use rustc_hash::FxBuildHasher;

use super::protocol::Session;

/// All sessions. A place that a session has left is the next one's.
#[derive(Debug)]
pub(super) struct Table {
    places: HashMap<u64, u32, FxBuildHasher>,
    sessions: Vec<Session>,
    free: Vec<u32>,
}

impl Table {
    pub(super) fn with_capacity(sessions: usize) -> Self {
        let places = HashMap::with_capacity_and_hasher(sessions, FxBuildHasher);
        Self { places, sessions: Vec::with_capacity(sessions), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the place of a connection. A new one gets a session.
    pub(super) fn find_or_open(&mut self, connection: u64, peer: SocketAddrV4) -> u32 {
        match self.places.entry(connection) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(vacant) => {
                let session = Session::new(connection, peer);
                let place = match self.free.pop() {
                    Some(place) => {
                        self.sessions[place as usize] = session;
                        place
                    }
                    None => {
                        self.sessions.push(session);
                        u32::try_from(self.sessions.len() - 1).expect("sessions are counted by 32 bits")
                    }
                };
                *vacant.insert(place)
            }
        }
    }

    pub(super) fn at(&mut self, place: u32) -> &mut Session {
        &mut self.sessions[place as usize]
    }

    pub(super) fn close(&mut self, place: u32) {
        self.places.remove(&self.sessions[place as usize].connection());
        self.free.push(place);
    }
}
