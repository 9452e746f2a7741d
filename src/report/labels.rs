//! Room for names beside points, so that no two texts of a chart lie on each other.

/// A rectangle of a chart, in its pixels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    /// The area around a middle.
    pub fn around((x, y): (f64, f64), width: f64, height: f64) -> Area {
        Area { left: x - width / 2.0, right: x + width / 2.0, top: y - height / 2.0, bottom: y + height / 2.0 }
    }

    fn meets(&self, o: &Area) -> bool {
        self.left < o.right && o.left < self.right && self.top < o.bottom && o.top < self.bottom
    }

    fn holds(&self, o: &Area) -> bool {
        self.left <= o.left && o.right <= self.right && self.top <= o.top && o.bottom <= self.bottom
    }
}

/// Width and height of a character: those of common fonts whose characters are equally wide, at 10 pixels, with a margin.
const CHARACTER: (f64, f64) = (6.2, 13.0);
/// How far from its point a name may begin.
const DISTANCES: [f64; 6] = [9.0, 16.0, 26.0, 40.0, 58.0, 80.0];

/// Where texts may go.
pub(super) struct Room {
    within: Area,
    taken: Vec<Area>,
}

impl Room {
    /// An area with nothing in it.
    pub fn new(within: Area) -> Room {
        Room { within, taken: vec![] }
    }

    /// Says that something is there.
    pub fn take(&mut self, area: Area) {
        self.taken.push(area);
    }

    /// The middle of a text that ends where a level line does, above it or below, and takes it; `None` where there is no room.
    pub fn along(&mut self, (x, y): (f64, f64), text: &str) -> Option<(f64, f64)> {
        let (width, height) = size(text);
        [y - height / 2.0 - 1.0, y + height / 2.0 + 1.0]
            .into_iter()
            .find_map(|y| self.place((x - width / 2.0, y), text))
    }

    /// Takes the place of a text around a middle, if it is free.
    fn place(&mut self, at: (f64, f64), text: &str) -> Option<(f64, f64)> {
        let (width, height) = size(text);
        let area = Area::around(at, width, height);
        let free = self.within.holds(&area) && !self.taken.iter().any(|t| t.meets(&area));
        free.then(|| self.take(area)).map(|()| at)
    }

    /// The middle of a text beside a point, as near as there is room, and takes it; `None` where there is none.
    pub fn beside(&mut self, (x, y): (f64, f64), text: &str) -> Option<(f64, f64)> {
        let (width, height) = size(text);
        // To the right and left first, then above and below, then between them.
        let sides =
            [(1.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (0.0, 1.0), (0.7, -0.7), (0.7, 0.7), (-0.7, -0.7), (-0.7, 0.7)];
        let places = DISTANCES.iter().flat_map(|d| sides.map(|(right, down)| (right, down, *d)));
        let middle = |(right, down, d): (f64, f64, f64)| {
            let aside = if right == 0.0 { 0.0 } else { width / 2.0 * f64::signum(right) };
            (x + aside + right * d, y + down * (d + height / 4.0))
        };
        places.map(middle).find_map(|at| self.place(at, text))
    }
}

/// Width and height of a text.
fn size(text: &str) -> (f64, f64) {
    (CHARACTER.0 * text.chars().count() as f64 + 2.0, CHARACTER.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_room_or_none_and_never_lie_on_each_other() {
        let mut room = Room::new(Area { left: 0.0, top: 0.0, right: 300.0, bottom: 200.0 });
        let points: Vec<(f64, f64)> = (0..200).map(|i| (140.0 + f64::from(i % 9), 100.0 + f64::from(i % 7))).collect();
        points.iter().for_each(|p| room.take(Area::around(*p, 8.0, 8.0)));
        let placed: Vec<_> = points.iter().filter_map(|p| room.beside(*p, "a_function")).collect();
        assert!((5..100).contains(&placed.len()), "{}", placed.len());
        let areas: Vec<Area> = placed.iter().map(|at| Area::around(*at, 62.0, 13.0)).collect();
        for (i, a) in areas.iter().enumerate() {
            assert!(room.within.holds(a) && areas[i + 1..].iter().all(|b| !a.meets(b)), "{a:?}");
        }
    }
}
