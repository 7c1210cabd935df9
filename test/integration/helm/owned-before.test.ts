import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { helmPath, helmVersions } from '../../../helm/tools/binaries.ts';
import { runApiServer, type RunningApiServer } from '../../support/api-server.ts';
import { kubectl } from '../../support/kubectl.ts';

const run = promisify(execFile);

/**
 * Earlier charts had the default quota as a resource of the release. Two small charts are the
 * one of before and the one of now: the API server of the tests does not have the other kinds.
 */
const quota = `apiVersion: conversation-operator.dev/v1alpha1
kind: ConversationQuota
metadata:
  name: default
  annotations:
    helm.sh/resource-policy: keep
spec:
  scope: Owner
  limit: 10
`;
const settings = `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  mark: {{ .Values.mark | quote }}
`;

function writeChart(folder: string, templates: Readonly<Record<string, string>>): string {
  mkdirSync(join(folder, 'templates'), { recursive: true });
  const chart = { apiVersion: 'v2', name: 'small', version: '0.1.0' };
  writeFileSync(join(folder, 'Chart.yaml'), stringify(chart));
  for (const [name, text] of Object.entries(templates))
    writeFileSync(join(folder, 'templates', name), text);
  return folder;
}

describe.each(helmVersions)('by Helm %i, a quota that the release had', (version) => {
  let api: RunningApiServer;
  let before: string;
  let now: string;
  beforeEach(async () => {
    api = await runApiServer();
    before = writeChart(join(api.folder, 'before'), {
      'quota.yaml': quota,
      'settings.yaml': settings,
    });
    now = writeChart(join(api.folder, 'now'), { 'settings.yaml': settings });
    await install(before, 'mark=1');
  });
  afterEach(() => api.close());

  const helm = (...args: readonly string[]) =>
    run(helmPath(version), [...args, '--namespace', 'default'], {
      env: {
        PATH: process.env['PATH'],
        HOME: '/nonexistent',
        GOGC: 'off',
        KUBECONFIG: api.kubeconfig,
        HELM_DRIVER: 'configmap',
      },
    });
  // The API server of the tests has no server-side apply, which Helm 4 prefers.
  const install = (chart: string, setting: string) =>
    helm('install', 'r', chart, '--set', setting, ...(version < 4 ? [] : ['--server-side=false']));
  const k = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await kubectl(api.kubeconfig, args);
    if (code !== 0) throw new Error(stderr);
    return stdout;
  };
  const limit = () => k('get', 'conversationquota', 'default', '-o', 'jsonpath={.spec.limit}');
  const mark = () => k('get', 'configmap', 'settings', '-o', 'jsonpath={.data.mark}');
  const patched = () =>
    k('patch', 'conversationquota', 'default', '--type=merge', '-p={"spec":{"limit":3}}');

  it('stays when an upgrade leaves it out, as people have changed it, and from then on', async () => {
    await patched();
    await helm('upgrade', 'r', now, '--set', 'mark=2');
    await helm('upgrade', 'r', now, '--set', 'mark=3');
    await helm('rollback', 'r', '2');
    expect([await limit(), await mark()]).toEqual(['3', '2']);
    await helm('uninstall', 'r');
    await install(now, 'mark=4');
    expect([await limit(), await mark()]).toEqual(['3', '4']);
  });

  // docs/upgrade.md describes that.
  it('makes the first rollback to the chart of before fail after everything else is back, and the second one not', async () => {
    await helm('upgrade', 'r', now, '--set', 'mark=2');
    await expect(helm('rollback', 'r', '1')).rejects.toThrow(/"default" (not )?found/);
    expect(await mark()).toBe('1');
    await helm('rollback', 'r', '1');
    expect([await limit(), await mark()]).toEqual(['10', '1']);
    await helm('upgrade', 'r', now, '--set', 'mark=3');
    expect([await limit(), await mark()]).toEqual(['10', '3']);
  });
});
