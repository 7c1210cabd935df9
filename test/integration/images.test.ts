import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { acpAgentNames } from '../../src/resources/acp-settings.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
/**
 * The client of S3 has 1 MiB of it, in a chunk that only a bucket loads, and the list of the prices
 * of models 0.46 MiB.
 */
const maxProgramBytes = 8.1 * 1024 * 1024;
/** The plugin of kubectl is in no image. */
const maxPluginBytes = 3.5 * 1024 * 1024;
const isPlugin = (name: string): boolean => name.startsWith('kubectl-');
/** The worker that finds colours has 0.17 MiB of it. */
const maxPageBytes = 0.5 * 1024 * 1024;
const maxWebUiBytes = 4 * 1024 * 1024;

describe('the images', () => {
  it.each([
    ['program', maxProgramBytes, (name: string) => !name.startsWith('web') && !isPlugin(name)],
    ['plugin of kubectl', maxPluginBytes, (name: string) => name === 'kubectl-conversations.js'],
    ['script of pages', maxPageBytes, (name: string) => name.startsWith('web')],
  ])('a build has a bounded %s', (_what, maxBytes, isCounted) => {
    const dist = join(root, 'dist');
    expect(existsSync(join(dist, 'main.js'))).toBe(true);
    const sizes = readdirSync(dist, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.js') && isCounted(name))
      .map((name) => statSync(join(dist, name)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(maxBytes);
  });

  it('the plugin of kubectl and the pages contain no prices of models', () => {
    const dist = join(root, 'dist');
    const outside = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.endsWith('.js') && (name.startsWith('web') || isPlugin(name)),
    );
    expect(outside.length).toBeGreaterThan(1);
    expect(
      outside.filter((name) => readFileSync(join(dist, name), 'utf8').includes('input_mtok')),
    ).toEqual([]);
  });

  it('hold the web UI as a layer of its own, with its license, and no more than 4 MiB of it', () => {
    const ui = join(root, 'dist', 'ui');
    const names = readdirSync(ui, { recursive: true, encoding: 'utf8' });
    expect(names).toEqual(expect.arrayContaining(['LICENSE', 'index.html']));
    const sizes = names.map((name) => statSync(join(ui, name)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(maxWebUiBytes);
    const text = readFileSync(join(root, 'images', 'Containerfile'), 'utf8');
    expect(text).toMatch(/^COPY --from=program \/src\/dist\/ui \/app\/ui$/m);
  });

  it.each([
    'Containerfile',
    'agent.Containerfile',
    'agent-acp.Containerfile',
    'openhands.Containerfile',
  ])('run as a user by number, from %s', (name) => {
    const text = readFileSync(join(root, 'images', name), 'utf8');
    expect(text).toMatch(/^USER [1-9][0-9]+:[1-9][0-9]+$/m);
  });

  it.each(['agent.Containerfile', 'agent-acp.Containerfile', 'openhands.Containerfile'])(
    'give that user a name and a shell, where commands run in it, in %s',
    (name) => {
      const text = readFileSync(join(root, 'images', name), 'utf8');
      const user = /^USER ([0-9]+:[0-9]+)$/m.exec(text)?.[1] ?? '';
      expect(text).toContain(`echo 'agent:x:${user}::/workspace:/bin/bash' >>/etc/passwd`);
    },
  );

  it.each([
    ['codec', '', 'AGENT must be one of codex, claude, qwen, opencode, gemini, kimi, not "codec"'],
    ['claude', '', 'ACCEPTED_LICENSE=claude builds an image with it'],
    ['claude', 'codex', 'the license of claude is not an open one'],
  ])('have no agent %s with the accepted license "%s"', (name, accepted, message) => {
    const script = join(root, 'images/install-acp-agent.ts');
    const { status, stderr } = spawnSync(process.execPath, [script, name, accepted], {
      env: { PATH: '/nonexistent' },
      encoding: 'utf8',
    });
    expect(status).toBe(1);
    expect(stderr).toContain(message);
  });

  it('have an image for each agent of the Agent Client Protocol', () => {
    const text = readFileSync(join(root, 'images/build'), 'utf8');
    expect(text).toContain(`for agent in ${acpAgentNames.join(' ')}; do`);
  });

  it('say what is needed where nothing builds them', () => {
    const { status, stderr } = spawnSync(join(root, 'images/build'), {
      env: { PATH: '/usr/bin:/bin', IMAGE_TOOL: 'kaniko' },
      encoding: 'utf8',
    });
    expect(status).toBe(1);
    expect(stderr).toContain('docker with its daemon, podman or buildah');
  });

  it('pin every package of the agent from the index', () => {
    const lines = readFileSync(join(root, 'images', 'openhands-constraints.txt'), 'utf8').split(
      '\n',
    );
    const packages = lines.filter((line) => line !== '' && !line.startsWith('#'));
    expect(packages.filter((line) => !/^[A-Za-z0-9._-]+==[A-Za-z0-9.]+$/.test(line))).toEqual([]);
    const versions = packages
      .filter((line) => line.startsWith('openhands-'))
      .map((line) => line.split('==')[1]);
    expect(new Set(versions).size).toBe(1);
    expect(
      readFileSync(join(root, 'dist', 'openhands-constraints.txt'), 'utf8').split('\n'),
    ).toEqual(lines);
  });
});
