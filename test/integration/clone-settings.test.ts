import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { repositoryOf } from '../support/git-tree.ts';
import { GitServer } from '../support/git-server.ts';
import { runClone } from '../support/run-clone.ts';

const folder = mkdtempSync(join(tmpdir(), 'clone-settings-'));
const stolen = join(folder, 'stolen');
/** A program that records its environment, and that of the process that has started it. */
const spy = join(folder, 'spy');
const source = repositoryOf(folder, {
  'README.md': 'hello\n',
  '.gitattributes': '* filter=steal\n',
});
const repositories = { 'acme/shop': { from: source } };
let host: GitServer;
let gateway: GitServer;
let evil: GitServer;

beforeAll(async () => {
  writeFileSync(
    spy,
    `#!/bin/sh\n{ echo ran; env; tr '\\0' '\\n' </proc/$PPID/environ; } >>${stolen}\ncat 2>/dev/null\n`,
    { mode: 0o755 },
  );
  mkdirSync(join(folder, 'template/hooks'), { recursive: true });
  for (const hook of ['post-checkout', 'reference-transaction'])
    writeFileSync(join(folder, 'template/hooks', hook), readFileSync(spy), { mode: 0o755 });
  [host, gateway, evil] = await Promise.all([
    GitServer.start({ repositories, readers: { 'acme/shop': ['another:user'] } }),
    GitServer.start({ repositories }),
    GitServer.start({ repositories }),
  ]);
});
beforeEach(() => {
  for (const server of [host, gateway, evil]) server.taken();
  rmSync(stolen, { force: true });
});
afterAll(async () => {
  await Promise.all([host, gateway, evil].map((server) => server.stop()));
  rmSync(folder, { recursive: true, force: true });
});

const user = '.gitconfig';
const userInConfig = '.config/git/config';
const around = '.git/config';
const hooks = () => `[core]\n\thooksPath = ${join(folder, 'template/hooks')}\n`;
const filter = () => `[filter "steal"]\n\tsmudge = ${spy}\n\trequired = true\n`;
const proxy = () => `[http]\n\tproxy = ${evil.url}\n`;
const otherUrl = () => `[url "${evil.url}/acme/shop.git"]\n\tinsteadOf = ${url()}\n`;
const otherFile = (workspace: string) => {
  writeFileSync(join(workspace, 'more'), hooks());
  return `[include]\n\tpath = ${join(workspace, 'more')}\n`;
};
const cases: readonly (readonly [string, string, (workspace: string) => string])[] = [
  ['a folder of hooks', user, hooks],
  ['a folder of hooks', userInConfig, hooks],
  ['a template', user, () => `[init]\n\ttemplateDir = ${join(folder, 'template')}\n`],
  ['a filter', user, filter],
  ['a monitor of files', user, () => `[core]\n\tfsmonitor = ${spy}\n`],
  ['another URL', user, otherUrl],
  ['another URL', around, otherUrl],
  ['a proxy', user, proxy],
  ['a proxy', around, proxy],
  ['a proxy for the gateway', user, () => `[http "${gateway.url}"]\n\tproxy = ${evil.url}\n`],
  ['another file', user, otherFile],
];

const url = () => `${host.url}/acme/shop.git`;

function write(workspace: string, name: string, text: string): void {
  const path = join(workspace, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

/** Clones the private repository by a ticket for the gateway, and by nothing else. */
async function cloneSafely(before: (workspace: string) => void) {
  const result = await runClone(folder, { from: host.url, through: gateway.url, before });
  expect(existsSync(stolen) ? readFileSync(stolen, 'utf8') : '').toBe('');
  expect(evil.taken()).toEqual([]);
  expect(result).toMatchObject({ code: 0, isThere: true });
  const seen = gateway.taken().map(({ authorization }) => authorization);
  expect(new Set(seen)).toEqual(new Set(['Bearer ticket']));
  return result;
}

it.each(cases)(
  'a clone by a ticket does not use %s of an earlier conversation in %s',
  async (_what, file, text) => {
    await cloneSafely((workspace) => {
      write(workspace, '.git/HEAD', 'ref: refs/heads/main\n');
      for (const name of ['objects', 'refs']) mkdirSync(join(workspace, '.git', name));
      write(workspace, file, `[core]\n\trepositoryformatversion = 0\n${text(workspace)}`);
    });
  },
);

describe('the tree of a killed clone', () => {
  const keep = (workspace: string) => {
    const tree = join(workspace, '.agent/clone/tree');
    const git = (...args: readonly string[]) =>
      execFileSync('git', args, { env: { PATH: process.env['PATH'], HOME: '/nonexistent' } });
    git('clone', '--quiet', '--no-checkout', source, tree);
    git('-C', tree, 'remote', 'set-url', 'origin', url());
    write(workspace, '.agent/clone/fetched', `${url()} `);
    return tree;
  };

  it('is used again', async () => {
    const { output } = await cloneSafely(keep);
    expect(output).not.toContain('Receiving objects');
  });

  it('is used again without its hooks', async () => {
    const { output, project } = await cloneSafely((workspace) =>
      cpSync(join(folder, 'template/hooks'), join(keep(workspace), '.git/hooks'), {
        recursive: true,
      }),
    );
    expect(output).not.toContain('Receiving objects');
    expect(existsSync(join(project, '.git/hooks/post-checkout'))).toBe(false);
  });

  it.each([
    ['a filter', filter],
    ['another file', () => `[include]\n\tpath = ${join(folder, 'filters')}\n`],
  ])('is fetched again where its settings have %s', async (_what, text) => {
    writeFileSync(join(folder, 'filters'), filter());
    const { output } = await cloneSafely((workspace) =>
      appendFileSync(join(keep(workspace), '.git/config'), text()),
    );
    expect(output).toContain('Receiving objects');
  });
});
