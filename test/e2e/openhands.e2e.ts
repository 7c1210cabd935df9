import { readFileSync } from 'node:fs';
import { eventually } from '../support/eventually.ts';
import { marker } from '../support/model-server.ts';
import { kubectl } from './support/cluster.ts';
import { readme } from './support/git-server.ts';
import { helm, release, report, TestedInstallation } from './support/installation.ts';
import { startModelServer } from './support/model-server.ts';

const up = new TestedInstallation('openhands');
const { namespace, sandboxes, tools, previousChart } = up.facts;
const [registry, tag] = [process.env['REGISTRY'] ?? '', process.env['TAG'] ?? ''];
const readyMs = 120_000;
// The test times out later than the wait, which reports what is missing.
const testMs = 3 * readyMs;
const modelKey = 'sk-of-the-team';

// The installation follows docs/install.md.
beforeAll(async () => {
  const model = await startModelServer(tools, `${registry}/conversation-operator-agent:${tag}`);
  await kubectl(
    `--namespace ${namespace} create secret generic model-keys --from-literal=team-model=${modelKey}`,
  );
  const keys = [
    '--reuse-values',
    '--set',
    'agentCredentials.existingSecret=model-keys',
    '--wait',
    '--timeout',
    '180s',
  ];
  await helm(['upgrade', release, previousChart, '--namespace', namespace, ...keys]);
  const example = readFileSync(
    new URL('../../manifests/examples/openhands.yaml', import.meta.url),
    'utf8',
  )
    .replace(/registry\.example\.com\/agents\/(.*):.*/, `${registry}/$1:${tag}`)
    .replace('https://models.example.com/v1', model);
  await up.k('apply -f -', example);
}, 240_000);

async function begin(script: string, more: object = {}): Promise<{ id: string; sandbox: string }> {
  const { id: task } = await up.start(`Work. ${marker(script)}`, {
    sandbox_spec_id: 'openhands-team',
    ...more,
  });
  const {
    status,
    error,
    app_conversation_id: id,
    sandbox_id: sandbox,
  } = await up.over(task, readyMs);
  expect({ status, error }).toEqual({ status: 'READY', error: null });
  return { id: id ?? '', sandbox: sandbox ?? '' };
}
const inProject = (sandbox: string, script: string) =>
  up.inSandbox(sandbox, `cd /workspace/project && ${script}`);

describe('the OpenHands agent on a cluster', () => {
  let id: string;
  let sandbox: string;

  it(
    'starts in a namespace of the standard restricted, and works on its repository as a user with a name and bash',
    async () => {
      expect(
        await kubectl(
          `get namespace ${sandboxes} -o jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}`,
        ),
      ).toBe('restricted');
      const begun = performance.now();
      ({ id, sandbox } = await begin('task', { selected_repository: 'acme/shop' }));
      await up.reaches(id, { execution_status: 'finished' }, readyMs);
      report(
        'OpenHands: a task, until finished',
        `${((performance.now() - begun) / 1000).toFixed(1)} s`,
      );
      expect(
        await inProject(sandbox, 'cat seen.txt; ls /tmp/kept /refused 2>/dev/null || true'),
      ).toBe(`${readme}\nagent\n/bin/bash\n/tmp/kept`);
      expect(await up.k(`get conversations ${id} --no-headers`)).toMatch(
        /RUNNING\s+finished\s+READY\s+acme\/shop/,
      );
    },
    testMs,
  );

  it('may commit what it has done, under the name that its template gives it', async () => {
    const script =
      "git add seen.txt && git commit --quiet --message Seen && git log -1 --format='%an <%ae>, %cn <%ce>'";
    expect(await inProject(sandbox, script)).toBe(
      'OpenHands <openhands@example.com>, OpenHands <openhands@example.com>',
    );
  });

  it('has the key of its model in no resource and no log', async () => {
    const visible = `${await up.k('get pods,conversations,sandboxes,sandboxtemplates,events -o yaml')}${await up.k(`logs ${sandbox}`)}`;
    expect(visible).toContain('openhands-team');
    expect(visible).not.toContain(modelKey);
  });

  it(
    'resumes a run that was paused in the middle of a command',
    async () => {
      const paused = await begin('pause');
      await eventually(
        'its command to run',
        () => inProject(paused.sandbox, 'ls begun').catch(() => undefined),
        readyMs,
      );
      await up.k(`scale sandbox ${paused.sandbox} --replicas=0`);
      await up.reaches(
        paused.id,
        { sandbox_status: 'PAUSED', execution_status: 'paused' },
        readyMs,
      );
      expect(
        (await up.call('POST', `/api/v1/sandboxes/${paused.sandbox}/resume`, { run: true })).status,
      ).toBe(200);
      await up.reaches(
        paused.id,
        { sandbox_status: 'RUNNING', execution_status: 'finished' },
        readyMs,
      );
      expect(
        await inProject(paused.sandbox, 'cat before.txt after.txt; ls ended 2>/dev/null || true'),
      ).toBe('before\nafter');
      await up.call('DELETE', `/api/v1/app-conversations/${paused.id}`);
    },
    testMs,
  );

  it(
    'is gone with its conversation',
    async () => {
      await up.k(`delete conversation ${id}`);
      const left = () =>
        up.k(`get sandboxes,pods,persistentvolumeclaims ${sandbox} --ignore-not-found -o name`);
      await eventually('everything to be gone', async () => (await left()) === '', readyMs);
    },
    testMs,
  );
});
