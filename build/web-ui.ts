import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** The package of the official web UI. Its license is MIT. */
export interface WebUiPackage {
  readonly name: string;
  readonly version: string;
  /** The hash of the archive, as the registry has it. */
  readonly integrity: string;
}

export const webUi: WebUiPackage = {
  name: '@openhands/agent-canvas',
  version: '1.20.0',
  integrity:
    'sha512-uq28bmdMapsDN0ltp5ZHYm9xfuk7cHktNkd0NY38w/UTq25wJTqSKSPya+2+ky0+HpGX2vmn0uF3mHuNCoOb2w==',
};

/** Fetches the archive of a package into a folder, and returns its path. */
export type Pack = (wanted: WebUiPackage, folder: string) => string;

const fetchMs = 60_000;

/**
 * Takes the archive alone from the registry. The package can't be a dependency: versions of its own
 * dependencies are not in the registry, and its built files need none of them.
 */
export const packWithNpm: Pack = ({ name, version }, folder) => {
  const options = ['--silent', '--ignore-scripts', '--fetch-retries=1', '--fetch-timeout=20000'];
  // A working directory of its own, because of npm's settings in this one.
  const output = execFileSync('npm', ['pack', ...options, `${name}@${version}`], {
    cwd: folder,
    encoding: 'utf8',
    timeout: fetchMs,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return join(folder, output.trim().split('\n').at(-1) ?? '');
};

export class IntegrityError extends Error {
  override readonly name = 'IntegrityError';
}

export interface WebUiOptions {
  /** Folder in which the archive is kept, so that it is fetched once. */
  readonly cache: string;
  readonly wanted?: WebUiPackage;
  readonly pack?: Pack;
}

function check(archive: string, { name, version, integrity }: WebUiPackage): void {
  const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
  if (found !== integrity)
    throw new IntegrityError(
      `${name}@${version} has the hash ${found} in ${archive}, not ${integrity}`,
    );
}

/**
 * The path of the checked archive. Throws an `IntegrityError` where its hash is another one, and
 * the error of `pack` where it can't be fetched.
 */
export function webUiArchive({ cache, wanted = webUi, pack = packWithNpm }: WebUiOptions): string {
  const kept = join(cache, `${wanted.name.replaceAll(/\W+/g, '-')}-${wanted.version}.tgz`);
  if (!existsSync(kept)) {
    mkdirSync(cache, { recursive: true });
    const work = mkdtempSync(join(cache, 'fetch-'));
    try {
      const archive = pack(wanted, work);
      check(archive, wanted);
      renameSync(archive, kept);
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  }
  check(kept, wanted);
  return kept;
}

/** Unpacks the built files and the license of an archive into a folder, which it makes. */
export function unpackWebUi(archive: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  const parts = ['package/build', 'package/LICENSE'];
  execFileSync('tar', ['-xzf', archive, '-C', folder, '--strip-components=1', ...parts]);
}

/**
 * Set before the first script: the UI knows the service that serves it as its only one, uses the
 * session of the sign-in, and reports nothing to its makers.
 */
const settings =
  'window.__AGENT_CANVAS_LOCK_TO_CLOUD__=location.origin;window.__AGENT_CANVAS_DO_NOT_TRACK__=true';

/**
 * Adds a link to our page of the conversation that the UI shows, or else to our list. The UI renders
 * the whole document, so that a link in its HTML would be gone: the link comes once the UI has
 * loaded. The link reads the address when it is used, because the UI changes its pages without
 * loading them.
 */
const wayBack = `addEventListener('load', () => {
  const link = document.createElement('a');
  link.id = 'way-back';
  link.textContent = '← Conversations';
  link.style.cssText = 'position:fixed;right:12px;bottom:4px;z-index:40;padding:2px 8px;border-radius:6px;font-size:12px;color:#ddd;background:#333';
  const update = () => {
    const [, id] = /^\\/conversations\\/([0-9a-f]{32})\\b/.exec(location.pathname) ?? [];
    link.href = id === undefined ? '/' : '/c/' + id;
  };
  for (const event of ['pointerenter', 'focus', 'click']) link.addEventListener(event, update);
  update();
  document.body.append(link);
});`;

const script = `<script>${settings};${wayBack}</script>`;

function withSettings(html: string): string {
  const [start, ...rest] = html.split('<head>');
  if (start === undefined || rest.length !== 1)
    throw new Error('the document of the web UI has another form');
  return `${start}<head>${script}${rest.join('')}`;
}

/** The style sheet without those of other hosts, which name fonts. */
const withoutForeignStyles = (css: string): string =>
  css.replaceAll(/@import\s*"https?:[^"]*"[^;]*;/g, '');

const changes: Readonly<Record<string, (text: string) => string>> = {
  '.css': withoutForeignStyles,
  '.html': withSettings,
};

/** Source maps are for its makers, and the service worker answers requests of their tests. */
const isLeftOut = (path: string): boolean =>
  path.endsWith('.map') || path === 'mockServiceWorker.js';

const packed: ReadonlySet<string> = new Set(['.css', '.ico', '.js', '.json', '.svg', '.xml']);

/**
 * Writes what the gateway serves of the web UI into `<folder>`: its files, those of text as
 * `<name>.gz` alone, `index.html` with the settings, and the license.
 */
export function writeWebUi(folder: string, options: WebUiOptions): void {
  const archive = webUiArchive(options);
  const work = mkdtempSync(join(tmpdir(), 'web-ui-'));
  try {
    unpackWebUi(archive, work);
    const built = join(work, 'build');
    for (const path of readdirSync(built, { recursive: true, encoding: 'utf8' })) {
      if (isLeftOut(path) || !statSync(join(built, path)).isFile()) continue;
      const bytes = readFileSync(join(built, path));
      const change = changes[extname(path)];
      const content = change === undefined ? bytes : Buffer.from(change(bytes.toString()));
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      if (packed.has(extname(path)))
        writeFileSync(join(folder, `${path}.gz`), gzipSync(content, { level: 9 }));
      else writeFileSync(join(folder, path), content);
    }
    writeFileSync(join(folder, 'LICENSE'), readFileSync(join(work, 'LICENSE')));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * Adds the web UI to a build. A build goes without it where the archive can't be fetched or
 * unpacked, and says so; another archive than the pinned one fails the build.
 */
export function addWebUi(
  folder: string,
  options: WebUiOptions,
  say: (sentence: string) => void,
): void {
  try {
    mkdirSync(folder, { recursive: true });
    writeWebUi(folder, options);
  } catch (error) {
    if (!isFailedProgram(error)) throw error;
    // The image takes the folder, which is empty then.
    for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
    const { name, version } = options.wanted ?? webUi;
    say(
      `The build goes without the official web UI: ${name}@${version} can not be fetched from the registry now.`,
    );
  }
}

/** Whether npm or tar is not there, has failed, or took too long. */
const isFailedProgram = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && ('spawnargs' in error || 'status' in error);
