import { execFile } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { program } from '../support/installation.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));
const installed = join(root, 'node_modules', '.bin');
const needed = Number(
  /"node": "\D*(\d+)/.exec(readFileSync(join(root, 'package.json'), 'utf8'))?.[1],
);

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program where there is neither a cluster nor anything of the person's. */
async function ended(file: string, args: readonly string[]): Promise<Ended> {
  const env = { PATH: '/usr/bin:/bin', HOME: '/nonexistent', KUBECONFIG: '/nonexistent/config' };
  try {
    return { code: 0, ...(await run(file, args, { cwd: root, env, timeout: 30_000 })) };
  } catch (error) {
    const { code, stdout, stderr } = error as Ended;
    return { code, stdout, stderr };
  }
}

/** This Node with the version of another one. */
const claiming = (version: string): readonly string[] => {
  const text = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`;
  return ['--import', `data:text/javascript,${encodeURIComponent(text)}`];
};

/** The system's Node where that is older; the tests find this project's on the PATH. */
async function systemNodes(): Promise<readonly string[]> {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((each) => each !== installed);
  const nodes = folders.map((folder) => join(folder, 'node')).filter((file) => existsSync(file));
  const versions = await Promise.all(
    nodes.map(async (node) => (await run(node, ['-p', 'process.versions.node'])).stdout),
  );
  return nodes.filter((_node, index) => Number.parseInt(versions[index] ?? '', 10) < needed);
}

const commands = [
  'version',
  'up',
  'operator',
  'gateway',
  'login-link --owner NAME',
  'keys create --owner me',
  'keys list',
  'keys revoke NAME',
  'claims list',
  'claims prune',
  'archive verify',
  'archive export ID',
  'archive prune',
  'crds',
  '--help',
  '',
];

describe('an older Node', () => {
  const sentence = (version: string) =>
    `conversation-operator: Node.js ${needed} or newer is needed, not ${version}: ` +
    `run it with ${join(installed, 'node')}, which \`npm ci\` installs\n`;

  it.each(commands)('reads in one line which one the command needs: %s', async (command) => {
    const args = [...claiming('20.20.2'), program, ...command.split(' ')];
    expect(await ended(process.execPath, args)).toEqual({
      code: 1,
      stdout: '',
      stderr: sentence('20.20.2'),
    });
  });

  it('gets as far as that line: those of the system do', async () => {
    for (const node of await systemNodes()) {
      const { stdout } = await run(node, ['-p', 'process.versions.node']);
      expect(await ended(node, [program, 'up'])).toEqual({
        code: 1,
        stdout: '',
        stderr: sentence(stdout.trim()),
      });
    }
  });
});

describe('the commands of the documents', () => {
  const documents = [
    'README.md',
    'CONTRIBUTING.md',
    'helm/conversation-operator/templates/NOTES.txt',
    ...readdirSync(join(root, 'docs'))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`),
  ];
  const lines = documents.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .map((line) => ({ file, line })),
  );

  it('run files of the project by the Node that npm has installed', () => {
    const others = lines.filter(({ line }) =>
      /(?<![\w/.-])node (dist|helm|images|packages|src|test)\//.test(line),
    );
    expect(others).toEqual([]);
    const named = lines.flatMap(({ line }) => [
      ...line.matchAll(/node_modules\/\.bin\/node ([\w/.-]+\.[jt]s)/g),
    ]);
    expect(named.length).toBeGreaterThan(10);
    expect(
      named.map(([, file = '']) => file).filter((file) => !existsSync(join(root, file))),
    ).toEqual([]);
  });

  const printed = lines.flatMap(({ line: text }) => {
    // The notes of the chart are a template.
    const line = text.replace(/\{\{ with .*end \}\}/, '').replaceAll(/\{\{[^}]*\}\}/g, 'agents');
    const found = /^ *node_modules\/\.bin\/node dist\/main\.js ((?:[\w.-]+ ?)+)/.exec(line);
    return found?.[1] === undefined ? [] : [found[1].trim()];
  });

  it.each(printed)('end without a stack beside an older Node: %s', async (command) => {
    const line = `node_modules/.bin/node dist/main.js ${command}`;
    const { code, stderr } = await ended('/bin/sh', ['-c', line]);
    // There is no cluster.
    expect(code).toBe(1);
    expect(stderr).toMatch(/^conversation-operator: [^\n]+\n$/);
  });
});
