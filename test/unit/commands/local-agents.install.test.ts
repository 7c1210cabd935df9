import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { acpVendors, type AcpVendor } from '@conversation-operator/agent-server/acp/vendors';
import {
  acpProgram,
  acpTemplate,
  installAcpAgent,
  localAgents,
} from '../../../src/commands/local-agents.ts';
import { DataFolder } from '../../../src/commands/data-folder.ts';
import { readUpConfig } from '../../../src/config/up.ts';
import { acpAgentNames } from '../../../src/resources/acp-settings.ts';
import {
  sandboxTemplates,
  sandboxTemplateSpecSchema,
} from '../../../src/resources/sandbox-template.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';

const agentsDocument = readFileSync(new URL('../../../docs/agents.md', import.meta.url), 'utf8');

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'install-'));
  mkdirSync(join(root, 'bin'));
  npm('mkdir -p "$3/node_modules/.bin" && touch "$3/node_modules/.bin/codex-acp"');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** The program `npm`, which gets `install --prefix FOLDER …`. */
const npm = (script: string) =>
  writeFileSync(
    join(root, 'bin', 'npm'),
    `#!/bin/sh\necho "$*" >> "$ROOT/calls"\nenv > "$ROOT/environment"\n${script}\n`,
    { mode: 0o755 },
  );
const calls = () => readFileSync(join(root, 'calls'), 'utf8').trimEnd().split('\n');
const install = (more: Record<string, string> = {}) =>
  installAcpAgent('codex', {
    folder: join(root, 'agents'),
    environment: { PATH: `${join(root, 'bin')}:/usr/bin:/bin`, ROOT: root, ...more },
    signal: new AbortController().signal,
  });

describe('installing an agent of the Agent Client Protocol', () => {
  it('installs the pinned package once, without its scripts and without the key of a model', async () => {
    const programs = await install({ LLM_API_KEY: 'secret' });
    expect(existsSync(join(programs, 'codex-acp'))).toBe(true);
    expect(await install()).toBe(programs);
    expect(calls()).toHaveLength(1);
    expect(calls()[0]).toContain('--ignore-scripts');
    expect(calls()[0]).toContain(`${acpVendors.codex.package}@${acpVendors.codex.version}`);
    expect(readFileSync(join(root, 'environment'), 'utf8')).not.toContain('secret');
    expect(readdirSync(join(root, 'agents'))).toEqual([`codex-${acpVendors.codex.version}`]);
  });

  it('leaves nothing behind when npm fails, and tries again', async () => {
    npm('mkdir -p "$3/node_modules/.bin"; exit 7');
    await expect(install()).rejects.toThrow(
      "the agent codex can't be installed: exit code 7 of npm",
    );
    expect(readdirSync(join(root, 'agents'))).toEqual([]);
    npm('mkdir -p "$3/node_modules/.bin" && touch "$3/node_modules/.bin/codex-acp"');
    expect(existsSync(await install())).toBe(true);
  });

  it('says that npm is missing', async () => {
    await expect(install({ PATH: root })).rejects.toThrow('npm, which is not on the PATH');
  });
});

describe('the agents of a start', () => {
  const start = async (settings: Record<string, string>) => {
    npm(`for name in codex-acp claude-agent-acp; do
      mkdir -p "$3/node_modules/.bin" && touch "$3/node_modules/.bin/$name"
    done`);
    const agents = await localAgents({
      config: readUpConfig(settings),
      folder: new DataFolder(join(root, 'data')),
      programFolder: fileURLToPath(new URL('../../../src', import.meta.url)),
      environment: { PATH: `${join(root, 'bin')}:/usr/bin:/bin`, ROOT: root },
      signal: new AbortController().signal,
    });
    const client = new FakeKubeClient();
    await agents.ensureTemplates(client, 'default');
    const { items } = await client.list(sandboxTemplates);
    return {
      templateName: agents.templateName,
      images: Object.keys(agents.images),
      templates: items.map(({ metadata, spec }) => [metadata.name, spec.agent.model]),
      notes: await agents.notes(client, 'default'),
    };
  };

  it('are all installed, with a template for each, and the first is that of starts', async () => {
    const { notes, ...agents } = await start({ AGENTS: 'codex, claude,codex', LLM_MODEL: 'm' });
    expect(agents).toEqual({
      templateName: 'codex',
      images: [
        'conversation-operator/reference-agent',
        'conversation-operator/acp-codex',
        'conversation-operator/acp-claude',
      ],
      templates: [
        ['default', undefined],
        ['codex', 'm'],
        ['claude', 'm'],
      ],
    });
    expect(calls()).toHaveLength(2);
    expect(notes.join('\n')).toContain(acpVendors.codex.package);
    expect(notes.join('\n')).toContain(acpVendors.claude.package);
  });

  it.each<[Record<string, string>, string, (string | undefined)[][]]>([
    [{}, 'default', [['default', undefined]]],
    [{ AGENT: 'reference', LLM_MODEL: 'm' }, 'default', [['default', 'm']]],
    [
      { AGENT: 'codex', LLM_MODEL: 'm' },
      'codex',
      [
        ['default', undefined],
        ['codex', 'm'],
      ],
    ],
    [
      { AGENTS: 'reference,codex', LLM_MODEL: 'm' },
      'default',
      [
        ['default', 'm'],
        ['codex', 'm'],
      ],
    ],
  ])('are those of %j', async (settings, templateName, templates) => {
    expect(await start(settings)).toMatchObject({ templateName, templates });
  });
});

describe('the table of agents', () => {
  it('has the names that AGENT allows', () => {
    expect(Object.keys(acpVendors)).toEqual([...acpAgentNames]);
  });

  it.each(acpAgentNames)('is that of docs/agents.md for %s', (name) => {
    const {
      package: packageName,
      version,
      license,
      modes,
      continues,
    }: AcpVendor = acpVendors[name];
    const mode = (text?: string) => (text === undefined ? 'none' : `\`${text}\``);
    const row = agentsDocument.split('\n').find((line) => line.startsWith(`| \`${name}\``)) ?? '';
    const cells = row.split('|').map((cell) => cell.trim());
    expect(cells).toMatchObject({
      2: `\`${packageName}\` ${version}`,
      3: license,
      5: mode(modes?.asks),
      6: mode(modes?.free),
      7: `\`${continues}\``,
    });
  });

  it.each(acpAgentNames)(
    'gives %s a valid template, and its programs before those of the system',
    (name) => {
      const { spec } = acpTemplate('default', name);
      expect(sandboxTemplateSpecSchema.safeParse(spec).error).toBeUndefined();
      expect(spec.description).toContain(acpVendors[name].license);
      expect(spec.agent.acp).toEqual({ agent: name, allowAlways: false });
      const program = acpProgram({ command: ['node', 'bridge.js'] }, '/agents/bin', {
        PATH: '/usr/bin',
      });
      expect(program).toEqual({
        command: ['node', 'bridge.js'],
        env: { PATH: '/agents/bin:/usr/bin' },
      });
    },
  );
});
