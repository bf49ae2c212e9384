/** STL files in 3D: a WebGL2 viewer with flat shading, which turns by pointer and keyboard. */

import { h, fill } from './dom.js';
import { plural } from './format.js';

/** Most triangles that are drawn. */
const MOST = 2_000_000;

const VERTEX = `#version 300 es
in vec3 place; uniform mat4 view; uniform mat4 screen; out vec3 seen;
void main() { vec4 at = view * vec4(place, 1.0); seen = at.xyz; gl_Position = screen * at; }`;

const FRAGMENT = `#version 300 es
precision highp float; in vec3 seen; uniform vec3 color; out vec4 shown;
void main() {
  vec3 n = normalize(cross(dFdx(seen), dFdy(seen)));
  float key = max(dot(n, normalize(vec3(-0.4, 0.6, 0.8))), 0.0);
  float fill = max(dot(n, normalize(vec3(0.7, -0.2, 0.5))), 0.0);
  shown = vec4(color * (0.32 + 0.55 * key + 0.2 * fill), 1.0);
}`;

/**
 * Reads an STL file, binary or text, into corners of triangles.
 * @param {ArrayBuffer} data
 * @returns {Float32Array<ArrayBuffer>}
 */
export function readStl(data) {
  const view = new DataView(data);
  const count = data.byteLength >= 84 ? view.getUint32(80, true) : 0;
  // A text file begins with `solid`, as some binary ones do: only the length tells.
  if (data.byteLength >= 84 && 84 + count * 50 === data.byteLength) return readBinary(view, count);
  const text = new TextDecoder().decode(data);
  const corners = [];
  for (const [, x, y, z] of text.matchAll(/vertex\s+(\S+)\s+(\S+)\s+(\S+)/g)) corners.push(Number(x), Number(y), Number(z));
  if (!corners.length || corners.length % 9 !== 0 || corners.some(Number.isNaN)) throw new Error('this is not an STL file');
  return new Float32Array(corners);
}

/**
 * @param {DataView} view
 * @param {number} count
 */
function readBinary(view, count) {
  if (count > MOST) throw new Error(`the part has ${plural(count, 'triangle')}; at most ${MOST.toLocaleString()} are drawn`);
  const corners = new Float32Array(count * 9);
  for (let at = 0; at < count; at += 1) {
    for (let n = 0; n < 9; n += 1) corners[at * 9 + n] = view.getFloat32(84 + at * 50 + 12 + n * 4, true);
  }
  return corners;
}

/**
 * Returns the middle and the size of a part.
 * @param {Float32Array} corners
 */
function boundsOf(corners) {
  const low = [Infinity, Infinity, Infinity];
  const high = [-Infinity, -Infinity, -Infinity];
  for (let at = 0; at < corners.length; at += 1) {
    const axis = at % 3;
    const value = /** @type {number} */ (corners[at]);
    low[axis] = Math.min(/** @type {number} */ (low[axis]), value);
    high[axis] = Math.max(/** @type {number} */ (high[axis]), value);
  }
  const size = high.map((it, axis) => it - /** @type {number} */ (low[axis]));
  return { middle: low.map((it, axis) => it + /** @type {number} */ (size[axis]) / 2), size, radius: Math.hypot(...size) / 2 || 1 };
}

/**
 * Shows a part in a canvas. Returns the view and the function that frees it.
 * @param {ArrayBuffer} data
 * @param {string} name
 */
export function stlView(data, name) {
  const corners = readStl(data);
  const { middle, size, radius } = boundsOf(corners);
  const facts = `${size.map((it) => it.toFixed(1)).join(' × ')} mm · ${plural(corners.length / 9, 'triangle')}`;
  const canvas = h('canvas', { tabindex: 0, role: 'img', 'aria-label': `${name} in 3D, ${facts}. Arrow keys turn it, plus and minus zoom.` });
  const node = h('figure', { class: 'stl' }, canvas, h('figcaption', null, name, ' ', h('span', { class: 'muted' }, facts)));
  const gl = canvas.getContext('webgl2', { antialias: true });
  if (!gl) {
    fill(node, h('p', { class: 'muted' }, `This browser has no WebGL2, so ${name} can’t be shown in 3D (${facts}).`));
    return { node, drop: () => {} };
  }
  const program = compile(gl);
  const buffer = gl.createBuffer();
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.bufferData(gl.ARRAY_BUFFER, corners, gl.STATIC_DRAW);
  const place = gl.getAttribLocation(program, 'place');
  gl.enableVertexAttribArray(place);
  gl.vertexAttribPointer(place, 3, gl.FLOAT, false, 0, 0);
  gl.enable(gl.DEPTH_TEST);
  const eye = { turn: 0.7, tilt: -1.1, far: 2.9 };
  let frame = 0;
  let spins = !matchMedia('(prefers-reduced-motion: reduce)').matches;
  let alive = true;
  const draw = () => {
    frame = 0;
    if (!alive || !canvas.isConnected) return;
    const scale = Math.min(devicePixelRatio, 2);
    const width = Math.max(1, Math.round(canvas.clientWidth * scale));
    const height = Math.max(1, Math.round(canvas.clientHeight * scale));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(program);
    gl.uniformMatrix4fv(gl.getUniformLocation(program, 'view'), false, viewMatrix(eye, middle, radius));
    gl.uniformMatrix4fv(gl.getUniformLocation(program, 'screen'), false, perspective(width / height, radius));
    gl.uniform3fv(gl.getUniformLocation(program, 'color'), colorOf(canvas));
    gl.drawArrays(gl.TRIANGLES, 0, corners.length / 3);
    if (spins) {
      eye.turn += 0.008;
      again();
    }
  };
  const again = () => {
    frame ||= requestAnimationFrame(draw);
  };
  const move = (/** @type {number} */ x, /** @type {number} */ y) => {
    spins = false;
    eye.turn += x;
    eye.tilt = Math.max(-Math.PI, Math.min(0, eye.tilt + y));
    again();
  };
  const zoom = (/** @type {number} */ by) => {
    eye.far = Math.max(1.2, Math.min(8, eye.far * by));
    again();
  };
  canvas.addEventListener('pointerdown', (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener('pointermove', (event) => {
    if (event.buttons) move(event.movementX * 0.01, event.movementY * 0.01);
  });
  canvas.addEventListener('wheel', (event) => {
    // The conversation scrolls; with the part in focus the wheel zooms.
    if (document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.08 : 0.93);
  }, { passive: false });
  canvas.addEventListener('keydown', (event) => {
    const turn = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] })[event.key];
    if (turn) move(...turn);
    else if (event.key === '+' || event.key === '=') zoom(0.9);
    else if (event.key === '-') zoom(1.1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const sizes = new ResizeObserver(again);
  sizes.observe(canvas);
  const drop = () => {
    alive = false;
    cancelAnimationFrame(frame);
    sizes.disconnect();
    gl.getExtension('WEBGL_lose_context')?.loseContext();
  };
  return { node, drop };
}

/** @param {WebGL2RenderingContext} gl */
function compile(gl) {
  const program = gl.createProgram();
  for (const [kind, text] of /** @type {[number, string][]} */ ([[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]])) {
    const shader = gl.createShader(kind);
    if (!shader) throw new Error('WebGL2 gives no shader');
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(`the shaders don’t link: ${gl.getProgramInfoLog(program)}`);
  return program;
}

/**
 * @param {{turn: number, tilt: number, far: number}} eye
 * @param {number[]} middle
 * @param {number} radius
 */
function viewMatrix(eye, middle, radius) {
  const [cz, sz, cx, sx] = [Math.cos(eye.turn), Math.sin(eye.turn), Math.cos(eye.tilt), Math.sin(eye.tilt)];
  const rows = [[cz, -sz, 0], [cx * sz, cx * cz, -sx], [sx * sz, sx * cz, cx]];
  const moved = rows.map((row) => -row.reduce((sum, it, axis) => sum + it * /** @type {number} */ (middle[axis]), 0));
  const [x, y, z] = /** @type {[number[], number[], number[]]} */ (rows);
  return new Float32Array([
    x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, moved[0], moved[1], /** @type {number} */ (moved[2]) - eye.far * radius, 1,
  ].map((it) => it ?? 0));
}

/**
 * @param {number} aspect
 * @param {number} radius
 */
function perspective(aspect, radius) {
  const [near, far, f] = [radius * 0.05, radius * 12, 2.1];
  const x = aspect < 1 ? f : f / aspect;
  const y = aspect < 1 ? f * aspect : f;
  return new Float32Array([x, 0, 0, 0, 0, y, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, (2 * far * near) / (near - far), 0]);
}

/** @param {HTMLElement} canvas */
function colorOf(canvas) {
  const [r = 0.6, g = 0.6, b = 0.6] = (getComputedStyle(canvas).color.match(/[\d.]+/g) ?? []).map((it) => Number(it) / 255);
  return new Float32Array([r, g, b]);
}
