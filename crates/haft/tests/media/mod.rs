//! Pictures, PDFs and shared files: shown, given away, and bounded against hostile content.

pub(crate) mod pictures;
mod shared;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use crate::support::{Server, TestWorkspace};
use image::{DynamicImage, GenericImageView as _, ImageFormat};
use pictures::{
    animated, cmyk, halves, laughing_svg, laughing_xml, packed, pdf, pdf_bomb, png_of, turned, written,
};
use serde_json::{Value, json};

/// Returns the result of a call of `image_view`: its line, and the picture.
#[track_caller]
fn looks(server: &Server, arguments: &Value) -> (String, String, DynamicImage) {
    let answer = server.start_call("image_view", arguments).wait().unwrap();
    let content = answer["result"]["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(content.len(), 2, "{arguments}: {answer}");
    let line = content[0]["text"].as_str().unwrap().to_owned();
    let data = kit::base64::decoded(content[1]["data"].as_str().unwrap()).unwrap();
    let mime = content[1]["mimeType"].as_str().unwrap().to_owned();
    let picture = image::load_from_memory(&data).unwrap();
    (line, mime, picture)
}

/// Returns whether a pixel is red, with a tolerance for lossy formats.
fn is_red(pixel: image::Rgba<u8>) -> bool {
    pixel.0[0] > 200 && pixel.0[2] < 60
}

#[test]
fn picture_format_is_detected_by_content() {
    let test_ws = TestWorkspace::new();
    let formats = [
        (ImageFormat::Png, "PNG"),
        (ImageFormat::Jpeg, "JPEG"),
        (ImageFormat::Gif, "GIF"),
        (ImageFormat::WebP, "WebP"),
        (ImageFormat::Bmp, "BMP"),
        (ImageFormat::Tiff, "TIFF"),
    ];
    let server = test_ws.serve();
    for (format, called) in formats {
        test_ws.put("a.txt", written(&halves(60, 30), format));
        let (line, _, picture) = looks(&server, &json!({"path": "a.txt"}));
        assert!(line.starts_with(&format!("a.txt: {called}, 60 x 30 pixels, ")), "{line}");
        assert_eq!(picture.dimensions(), (60, 30), "{called}");
        assert!(is_red(picture.get_pixel(5, 5)) && !is_red(picture.get_pixel(55, 5)), "{called}");
    }
    test_ws.put("turned.jpg", turned());
    let (line, _, picture) = looks(&server, &json!({"path": "turned.jpg"}));
    assert!(
        line.contains("JPEG, 32 x 64 pixels") && line.contains("turned upright as its EXIF says"),
        "{line}"
    );
    assert!(is_red(picture.get_pixel(16, 5)) && !is_red(picture.get_pixel(16, 60)));
    let (line, _, part) = looks(&server, &json!({"path": "turned.jpg", "region": [0, 40, 32, 20]}));
    assert!(line.contains("the part [0, 40, 32, 20]") && part.dimensions() == (256, 160), "{line}");
    assert!(!is_red(part.get_pixel(128, 80)));
    test_ws.put("print.jpg", cmyk());
    assert_eq!(looks(&server, &json!({"path": "print.jpg"})).2.dimensions(), (8, 8));
    test_ws.put("a.gif", animated());
    let (line, _, picture) = looks(&server, &json!({"path": "a.gif"}));
    assert!(line.ends_with("the first of 3 frames"), "{line}");
    assert_eq!(picture.get_pixel(1, 1).0, [255, 0, 0, 255]);
    test_ws.put("a.svg", "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 10'><rect width='10' height='10' fill='red'/></svg>");
    let (line, mime, picture) = looks(&server, &json!({"path": "a.svg"}));
    assert!(line.starts_with("a.svg: SVG, 512 x 256 pixels"), "{line}");
    assert!(mime == "image/png" && is_red(picture.get_pixel(50, 50)), "{line}");
    test_ws.put("a.pdf", pdf(&["one", "two"]));
    let (line, _, picture) = looks(&server, &json!({"path": "a.pdf", "page": 2}));
    assert!(line.starts_with("a.pdf: PDF, page 2 of 2, 1568 x 1045 pixels"), "{line}");
    assert!(is_red(picture.get_pixel(100, 1000)) && !is_red(picture.get_pixel(1500, 1000)));
    let (_, _, part) = looks(&server, &json!({"path": "a.pdf", "region": [0, 900, 500, 145]}));
    assert_eq!(part.dimensions(), (1500, 435));
    // The text of `read` for the same files.
    let text = server.does("read", &json!({"path": "a.pdf"}));
    assert_eq!(text, "--- page 1 ---\none\n--- page 2 ---\ntwo\n[PDF, pages 1-2 of 2]");
    assert!(server.does("read", &json!({"path": "a.gif"})).starts_with("a.gif: GIF, 10 x 6"));
}

#[test]
fn large_picture_is_scaled_and_its_metadata_removed() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    let mut jpeg = written(&halves(4000, 1000), ImageFormat::Jpeg);
    let secret = b"51.5007 N 0.1246 W";
    let length = u16::try_from(secret.len() + 2).unwrap().to_be_bytes();
    jpeg.splice(2..2, [&[0xff, 0xfe], &length[..], secret].concat());
    test_ws.put("a.jpg", &jpeg);
    let answer = server.start_call("image_view", &json!({"path": "a.jpg"})).wait().unwrap();
    let content = &answer["result"]["content"];
    assert!(content[0]["text"].as_str().unwrap().ends_with("; shown at 1568 x 392"), "{content}");
    let data = kit::base64::decoded(content[1]["data"].as_str().unwrap()).unwrap();
    assert!(!data.windows(secret.len()).any(|it| it == secret));
    // Noise, which nothing makes small but a smaller picture.
    let mut state = 1u32;
    let noise = image::RgbImage::from_fn(2200, 2200, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, _] = state.to_be_bytes();
        image::Rgb([a, b, c])
    });
    test_ws.put("noise.png", written(&DynamicImage::ImageRgb8(noise), ImageFormat::WebP));
    let answer = server.start_call("image_view", &json!({"path": "noise.png"})).wait().unwrap();
    let content = &answer["result"]["content"];
    assert_eq!(content[1]["mimeType"], "image/jpeg", "{answer}");
}

#[test]
fn hostile_pictures_are_refused_in_little_memory() {
    let test_ws = TestWorkspace::new();
    let server = test_ws.serve();
    // As the program itself is mapped into memory.
    let at_rest = server.peak_memory();
    test_ws.put("wide.png", png_of(50_000, 50_000, &packed(1)));
    test_ws.put("zlib.png", png_of(10_000, 10_000, &packed(300)));
    test_ws.put("small.png", png_of(10, 10, &packed(1000)));
    test_ws.put("bomb.pdf", pdf_bomb(1000));
    test_ws.put("uses.svg", laughing_svg());
    test_ws.put("entities.svg", laughing_xml());
    test_ws.put("page.png", "<!doctype html><title>Not found</title>");
    test_ws.put("empty.png", "");
    test_ws.put("cut.png", &written(&halves(300, 300), ImageFormat::Png)[..200]);
    let refused = |path: &str, why: &str| {
        let said = server.call("image_view", &json!({"path": path}));
        assert!(said.is_error && said.text.contains(path) && said.text.contains(why), "{path}: {said:?}");
    };
    refused("wide.png", "50000 x 50000 pixels");
    refused("zlib.png", "10000 x 10000 pixels");
    refused("bomb.pdf", "unpacks to more than");
    refused("uses.svg", "draws more than");
    refused("entities.svg", "broken as SVG");
    refused("page.png", "text/html");
    refused("empty.png", "empty");
    refused("cut.png", "broken as PNG");
    // Its pixels are all there, and what comes after them is never unpacked.
    server.call("image_view", &json!({"path": "small.png"}));
    // And one that is just large enough to be seen.
    test_ws.put("large.jpg", written(&halves(7200, 5700), ImageFormat::Jpeg));
    let (line, ..) = looks(&server, &json!({"path": "large.jpg"}));
    assert!(line.contains("7200 x 5700"), "{line}");
    // Its pixels alone are 118 MiB.
    let taken = server.peak_memory() - at_rest;
    assert!(taken < 160, "{taken} MiB beyond {at_rest} MiB at rest");
}

#[test]
fn svg_loads_no_other_files() {
    let test_ws = TestWorkspace::new();
    fs::write(test_ws.outside().join("secret.png"), written(&halves(10, 10), ImageFormat::Png)).unwrap();
    let (address, asked) = web(b"", "image/png");
    let file = test_ws.outside().join("secret.png");
    let svg = |href: &str| {
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink' width='600' height='600'>\
             <script>throw 1</script><image width='600' height='600' xlink:href='{href}' href='{href}'/></svg>"
        )
    };
    let server = test_ws.serve();
    for href in [
        file.to_string_lossy().into_owned(),
        format!("file://{}", file.display()),
        "../outside/secret.png".to_owned(),
        "file:///etc/passwd".to_owned(),
        format!("http://{address}/x.png"),
    ] {
        test_ws.put("a.svg", svg(&href));
        let (line, _, picture) = looks(&server, &json!({"path": "a.svg"}));
        assert!(picture.pixels().all(|(_, _, it)| it.0 == [255; 4]), "{href}: {line}");
    }
    assert_eq!(asked.try_iter().count(), 0, "nobody was asked");
    // Text in the picture is shown.
    let inner = kit::base64::encoded(&written(&halves(10, 10), ImageFormat::Png));
    test_ws.put("a.svg", svg(&format!("data:image/png;base64,{inner}")));
    assert!(is_red(looks(&server, &json!({"path": "a.svg"})).2.get_pixel(100, 100)));
    test_ws.put("x.svg", "<!DOCTYPE svg [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><svg xmlns='http://www.w3.org/2000/svg' width='99' height='99'><text>&x;</text></svg>");
    assert!(server.call("image_view", &json!({"path": "x.svg"})).is_error);
}

/// Starts a server that gives this answer to every request, and reports the requests.
fn web(body: &'static [u8], mime: &'static str) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, asked) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            let _ = sender.send(String::from_utf8_lossy(&head[..read]).into_owned());
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&[answer.as_bytes(), body].concat());
        }
    });
    (address, asked)
}

#[test]
fn picture_of_the_web_is_shown_and_of_a_private_address_refused() {
    let test_ws = TestWorkspace::new();
    let png: &'static [u8] = Vec::leak(written(&halves(60, 30), ImageFormat::Png));
    let (address, _) = web(png, "text/html");
    let (page, _) = web(b"<html><h1>404</h1>", "image/png");
    let url = format!("http://{address}/a.html");
    let refused = test_ws.call("image_view", &json!({"url": url})).must("denied");
    assert!(refused.text().contains("private_net"), "{}", refused.text());
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), format!("[net]\nallow = [\"{address}\", \"{page}\"]\n"))
        .unwrap();
    let server = test_ws.serve();
    let (line, _, picture) = looks(&server, &json!({"url": url}));
    assert!(line.starts_with(&format!("{url}: PNG, 60 x 30")) && is_red(picture.get_pixel(3, 3)), "{line}");
    let said = server.call("image_view", &json!({"url": format!("http://{page}/a.png")}));
    assert!(said.is_error && said.text.contains("text/html"), "{said:?}");
    for other in ["file:///etc/passwd", "ftp://example.org/a.png", "no address"] {
        let said = server.call("image_view", &json!({"url": other}));
        assert!(said.is_error, "{other}: {said:?}");
    }
}

#[test]
fn conversation_stores_a_handle_and_not_the_picture() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.png", written(&halves(300, 300), ImageFormat::Png));
    test_ws.put(
        "script",
        "{\"calls\": [{\"tool\": \"image_view\", \"arguments\": {\"path\": \"a.png\"}}]}\n{\"say\": \"I see it.\"}\n",
    );
    let script = format!("script:{}", test_ws.at("script").display());
    let ran = test_ws.run(&["run", "--model", &script, "look"]);
    assert!(ran.code == 0 && ran.out.contains("I see it."), "{ran:?}");
    let png = kit::base64::encoded(&written(&halves(300, 300), ImageFormat::Png));
    let mut databases = 0;
    for workspace in fs::read_dir(test_ws.state().join("workspaces")).unwrap() {
        for file in ["haft.db", "haft.db-wal"] {
            let Ok(bytes) = fs::read(workspace.as_ref().unwrap().path().join(file)) else { continue };
            databases += 1;
            assert!(!bytes.windows(40).any(|it| it == &png.as_bytes()[..40]), "the picture is in {file}");
        }
    }
    assert!(databases > 0);
}

#[test]
fn terminal_shows_one_line_for_a_picture() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.png", written(&halves(60, 30), ImageFormat::Png));
    let ran = test_ws.run(&["call", "image_view", r#"{"path": "a.png"}"#]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(
        lines[0].starts_with("a.png: PNG, 60 x 30 pixels, ") && lines[1].starts_with("[image: image/png, ")
    );
}
