import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { helmPath, helmVersions } from '../../../helm/tools/binaries.ts';
import { runApiServer } from '../../../test/support/api-server.ts';

const run = promisify(execFile);

it.each(helmVersions)('Helm %s installs, upgrades, rolls back and uninstalls', async (version) => {
  const running = await runApiServer();
  const { kubeconfig, folder } = running;
  try {
    const chart = join(folder, 'chart');
    mkdirSync(join(chart, 'templates'), { recursive: true });
    writeFileSync(join(chart, 'Chart.yaml'), 'apiVersion: v2\nname: tiny\nversion: 0.1.0\n');
    writeFileSync(join(chart, 'templates', 'all.yaml'), manifest);
    const helm = async (...args: readonly string[]): Promise<string> => {
      const env = { PATH: process.env['PATH'], HOME: folder, KUBECONFIG: kubeconfig };
      return (await run(helmPath(version), [...args, '-n', 'fresh'], { env })).stdout;
    };
    await helm('install', 'one', chart, '--create-namespace');
    await helm('upgrade', 'one', chart, '--set', 'value=second', '--wait');
    expect(await helm('get', 'manifest', 'one')).toContain('value: second');
    await helm('rollback', 'one', '1');
    expect(await helm('history', 'one')).toMatch(/^3\s.*deployed.*Rollback to 1/m);
    expect(await helm('uninstall', 'one')).toContain('uninstalled');
  } finally {
    await running.close();
  }
});

const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: small}
data:
  value: {{ .Values.value | default "first" }}
---
apiVersion: conversation-operator.dev/v1alpha1
kind: Conversation
metadata: {name: custom}
spec: {owner: alice}
`;
