import { apply, kubectl } from './support/cluster.ts';
import { chartFolder } from '../../helm/tools/render.ts';
import { eventually } from '../support/eventually.ts';
import {
  agentImage,
  chartValues,
  helm,
  programOwner,
  release,
  TestedInstallation,
} from './support/installation.ts';

const readyMs = 60_000;
const up = new TestedInstallation('talk');
const { tools, url } = up.facts;
const id = 'e2e5a000000040008000000000000001';
const inTools = (args: string) => kubectl(`--namespace ${tools} ${args}`);

/** A Pod that starts a conversation with the projected token of its service account. */
const program = (name: string, audience: string) => {
  const { repository, tag } = agentImage();
  const script = [
    'curl -s -w "\\nstatus %{http_code}\\n"',
    '-H "Authorization: Bearer $(cat /token/token)" -H "Content-Type: application/json"',
    `-d '{"conversation_id": "${id}", "initial_message": null}'`,
    `${url}/api/v1/app-conversations`,
  ].join(' ');
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: tools },
    spec: {
      serviceAccountName: 'runner',
      automountServiceAccountToken: false,
      restartPolicy: 'Never',
      containers: [
        {
          name: 'program',
          image: `${repository}:${tag}`,
          command: ['/bin/sh', '-c', script],
          volumeMounts: [{ name: 'token', mountPath: '/token' }],
        },
      ],
      volumes: [
        {
          name: 'token',
          projected: { sources: [{ serviceAccountToken: { path: 'token', audience } }] },
        },
      ],
    },
  };
};

/** A token that ends with the Pod, as the one that is mounted there. */
const tokenOf = (pod: string): Promise<string> =>
  inTools(
    `create token runner --audience conversation-operator --duration 10m --bound-object-kind Pod --bound-object-name ${pod}`,
  );

async function statusOf(token = ''): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  return (await fetch(`${url}/api/v1/users/me`, { headers })).status;
}

async function install(tokenReview: boolean): Promise<void> {
  await helm(
    [
      ...['upgrade', release, chartFolder, '--namespace', up.facts.namespace],
      ...['--wait', '--timeout', '180s'],
    ],
    chartValues({ ...up.facts, tokenReview }),
  );
}

async function outputOf(name: string): Promise<string> {
  await inTools(`wait --for=jsonpath={.status.phase}=Succeeded pod/${name} --timeout=120s`);
  return inTools(`logs ${name}`);
}

describe('a program in the cluster', () => {
  beforeAll(async () => {
    await install(false);
    await apply(
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'runner', namespace: tools } },
      program('program', 'conversation-operator'),
      program('program-of-others', 'https://kubernetes.default.svc'),
    );
  }, 240_000);
  afterAll(async () => {
    await inTools('delete pod/program pod/program-of-others serviceaccount/runner --wait=false');
    await up.k(`delete conversation ${id} --ignore-not-found`);
  });

  it('starts a conversation with the token of its service account', async () => {
    expect(await outputOf('program')).toContain('status 200');
    await up.k(
      `wait --for=jsonpath={.status.start.status}=READY conversation/${id} --timeout=120s`,
    );
    expect(await up.k(`get conversation ${id} -o jsonpath={.spec.owner}`)).toBe(programOwner);
    expect(await up.k('get apikeys -o jsonpath={.items[*].spec.description}')).toContain(
      `Service account ${tools}/runner`,
    );
  });

  it('is refused with a token for another audience', async () => {
    expect(await outputOf('program-of-others')).toContain('status 401');
  });

  it('keeps a token that outlives its Pod, unless tokens are reviewed', async () => {
    const pods = ['program-of-before', 'program-of-now'] as const;
    await apply(...pods.map((name) => program(name, 'conversation-operator')));
    const [before, now] = await Promise.all(pods.map(tokenOf));
    await inTools(`delete pod/${pods[0]} --now`);
    expect(await statusOf(before)).toBe(200);
    await install(true);
    await eventually(
      'the token of the deleted Pod to be refused',
      async () => (await statusOf(before)) === 401,
      readyMs,
    );
    expect(await statusOf(now)).toBe(200);
    await inTools(`delete pod/${pods[1]} --now`);
    // A gateway asks about the same token once a minute.
    await eventually(
      'the token of the Pod that is deleted meanwhile to be refused',
      async () => (await statusOf(now)) === 401,
      90_000,
    );
    await install(false);
  }, 600_000);
});
