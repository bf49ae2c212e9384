//! Drawing a mesh of a million triangles, compared with reading its file.
//!
//! The whole process is pinned to one core, if the system allows it.

use std::{f32::consts::PI, fs, io::Write as _};

use serde_json::json;

use super::{Aim, Amount, Fixture, Row, Scratch, Trouble, in_turn, timed};

const AROUND: usize = 1_000;
const DOWN: usize = 500;
const RUNS: usize = 7;

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    one_core();
    let folder = scratch.folder("render")?;
    let file = folder.join("part.stl");
    fs::write(&file, mesh()?)?;
    let fixture = Fixture::open(scratch, &folder, tools::all())?;
    let one = json!({"path": "part.stl", "views": ["iso"], "width": 1024, "height": 768});
    let three = json!({"path": "part.stl", "width": 1024, "height": 768});
    let [drawn, all, read] = in_turn(
        RUNS,
        [
            &mut || fixture.call("render_3d", one.clone()),
            &mut || fixture.call("render_3d", three.clone()),
            &mut || timed(|| Ok(fs::read(&file)?.len())),
        ],
    )?;
    let comparison = || read.comparison("reading the 50 MB of the file");
    let second = Amount::Time(std::time::Duration::from_secs(1));
    Ok(vec![
        drawn.row("`render_3d`, 1,000,000 triangles, 1024×768", comparison(), Some(Aim::Under(second))),
        all.row("the same, three views", comparison(), None),
    ])
}

/// Returns a ball with bumps, as binary STL.
fn mesh() -> Result<Vec<u8>, Trouble> {
    let point = |around: usize, down: usize| {
        let a = 2.0 * PI * (around % AROUND) as f32 / AROUND as f32;
        let b = PI * down as f32 / DOWN as f32;
        let r = 40.0 + 3.0 * (9.0 * a).sin() * b.sin().powi(2) * (7.0 * b).cos();
        [r * b.sin() * a.cos(), r * b.sin() * a.sin(), r * b.cos()]
    };
    let count = AROUND * DOWN * 2;
    let mut bytes = Vec::with_capacity(84 + 50 * count);
    bytes.extend([0; 80]);
    bytes.extend(u32::try_from(count)?.to_le_bytes());
    for down in 0..DOWN {
        for around in 0..AROUND {
            let [a, b, c, d] = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(i, j)| point(around + i, down + j));
            for triangle in [[a, c, d], [a, d, b]] {
                bytes.extend([0; 12]);
                for value in triangle.iter().flatten() {
                    bytes.write_all(&value.to_le_bytes())?;
                }
                bytes.extend([0; 2]);
            }
        }
    }
    Ok(bytes)
}

/// Pins this process, and the threads that it will start, to one core.
fn one_core() {
    let pid = std::process::id().to_string();
    // Without `taskset` all cores are used: a picture is drawn on one anyway.
    let _ = std::process::Command::new("taskset").args(["-a", "-p", "-c", "0", &pid]).output();
}
