import { chartFolder } from '../../helm/tools/render.ts';
import { eventually } from '../support/eventually.ts';
import { kubectl, stateFolder } from './support/cluster.ts';
import { TestedInstallation, chartValues, helm, release } from './support/installation.ts';

const up = new TestedInstallation('story');
const { facts } = up;
const withinMs = 120_000;

describe('an uninstall', () => {
  let id: string;
  let sandbox: string;
  let before: string;

  /** Resources of the product, pods, volumes and Secrets, which users would miss, by UID. */
  const belongings = async () => {
    const uids = '-o jsonpath={range.items[*]}{.kind}/{.metadata.name}:{.metadata.uid},{end}';
    const kinds =
      'conversations,sandboxes,sandboxtemplates,sandboxpools,conversationquotas,apikeys,ownersettings,shares,handovers,usagerecords,pods,persistentvolumeclaims';
    const secrets = `${release}-master-key ${release}-first-key`;
    return `${await up.k(`get ${kinds} ${uids}`)}${await kubectl(`--namespace ${facts.namespace} get secret ${secrets} ${uids}`)}`;
  };

  beforeAll(async () => {
    const task = await up.over((await up.start('```sh\necho kept >kept.txt\n```')).id, withinMs);
    id = task.app_conversation_id ?? '';
    sandbox = task.sandbox_id ?? '';
    await up.reaches(id, { execution_status: 'finished' }, withinMs);
    // The last pods and volumes that other parts have deleted may still be terminating.
    await eventually(
      'nothing to be going',
      async () =>
        !(await up.k('get pods,pvc,sandboxes -o jsonpath={.items[*].metadata}')).includes(
          'deletionTimestamp',
        ),
      withinMs,
    );
    before = await belongings();
  }, 200_000);

  it('takes the processes away, and nothing of what people have', async () => {
    await helm([
      'uninstall',
      release,
      '--namespace',
      facts.namespace,
      '--wait',
      '--timeout',
      '120s',
    ]);
    expect(
      await kubectl(
        `--namespace ${facts.namespace} get deployments,services,serviceaccounts -l app.kubernetes.io/instance=${release} -o name`,
      ),
    ).toBe('');
    // Helm waits for what it has made, not for what became of it; a gateway that still ends would
    // get the next one's requests.
    const ofRelease = `get pods -l app.kubernetes.io/instance=${release} -o name`;
    await eventually(
      'its pods to be gone',
      async () => (await kubectl(`--namespace ${facts.namespace} ${ofRelease}`)) === '',
      withinMs,
    );
    expect(await belongings()).toBe(before);
    expect(await up.inSandbox(sandbox, 'cat /workspace/project/kept.txt')).toBe('kept');
  });

  it('is undone by an install of the same release, which takes everything over', async () => {
    // The release does not own what people have changed, so Helm does not refuse the install.
    await up.k([
      ...['patch', 'conversationquota', 'default', '--type', 'merge'],
      ...['-p', '{"spec":{"limit":9}}'],
    ]);
    await helm(
      [
        'install',
        release,
        chartFolder,
        '--namespace',
        facts.namespace,
        '--wait',
        '--timeout',
        '180s',
      ],
      chartValues(facts),
    );
    expect(await belongings()).toBe(before);
    expect(await up.k('get conversationquota default -o jsonpath={.spec.limit}')).toBe('9');
    // Another Service, so another address; the port that is forwarded stays.
    if (stateFolder !== undefined) {
      up.url = `http://${await kubectl(`--namespace ${facts.namespace} get service ${release}-gateway -o jsonpath={.spec.clusterIP}`)}`;
    }
    await up.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' }, withinMs);
    const task = await up.over((await up.start('Hello.')).id, withinMs);
    expect(task).toMatchObject({ status: 'READY', error: null });
  }, 240_000);

  it('can be made to leave nothing, as docs/upgrade.md says', async () => {
    await up.k('delete conversations,sandboxes --all --timeout=120s');
    await eventually(
      'all pods and volumes to be gone',
      async () => (await up.k('get pods,pvc -o name')) === '',
      withinMs,
    );
    await helm([
      'uninstall',
      release,
      '--namespace',
      facts.namespace,
      '--wait',
      '--timeout',
      '120s',
    ]);
    await kubectl('delete crd -l app.kubernetes.io/name=conversation-operator --timeout=60s');
    expect(await kubectl('get crd -o name')).not.toContain('conversation-operator');
    await kubectl(`delete namespace ${facts.namespace} ${facts.sandboxes} --timeout=120s`);
    expect(
      await kubectl('get clusterroles,clusterrolebindings,persistentvolumes -o name'),
    ).not.toMatch(/conversation-operator/);
  }, 300_000);
});
