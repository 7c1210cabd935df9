import { execFile } from 'node:child_process';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { helmPath } from '../../../helm/tools/binaries.ts';
import { RestUser } from '../../support/rest-user.ts';
import { kubeconfig, kubectl, stateFolder } from './cluster.ts';

const execute = promisify(execFile);

/** Owners whose keys the set-up creates: one for each part, so that no two parts share a quota. */
export const owners = [
  'story',
  'talk',
  'client',
  'page',
  'quota',
  'causes',
  'loss',
  'openhands',
  'upgrade',
  'chaos',
  'push',
  'history',
] as const;
export type Owner = (typeof owners)[number];

const factsSchema = z.object({
  work: z.string(),
  /** Namespace of the release. */
  namespace: z.string(),
  /** Namespace of the conversations and sandboxes. */
  sandboxes: z.string(),
  /** Namespace of the pods of the tests. */
  tools: z.string(),
  /** URL of the gateway's Service. */
  url: z.string(),
  gitUrl: z.string(),
  /** A chart of an older version, which is installed first. */
  previousChart: z.string(),
  keys: z.record(z.string(), z.string()),
});
export type Facts = z.output<typeof factsSchema>;

/** The file of facts that the set-up passes to the tests, which run in other modules. */
const factsFile = (): string => join(process.env['E2E_WORK'] ?? '', 'facts.json');
export const writeFacts = (facts: Facts): void => writeFileSync(factsFile(), JSON.stringify(facts));
export const readFacts = (): Facts =>
  factsSchema.parse(JSON.parse(readFileSync(factsFile(), 'utf8')));

const figuresFile = (): string => join(process.env['E2E_WORK'] ?? '', 'figures.json');
export function readFigures(): Readonly<Record<string, string>> {
  if (!existsSync(figuresFile())) return {};
  return z.record(z.string(), z.string()).parse(JSON.parse(readFileSync(figuresFile(), 'utf8')));
}

/** Printed at the end of the run. */
export function report(name: string, value: string): void {
  writeFileSync(`${figuresFile()}.new`, JSON.stringify({ ...readFigures(), [name]: value }));
  renameSync(`${figuresFile()}.new`, figuresFile());
}

export const release = 'conversation-operator';

/** The gateway's own address by its configuration. No resolver knows it here. */
export const publicUrl = 'http://conversations.test';

/** Owner of the service account `runner` in the namespace of the tests' pods. */
export const programOwner = 'program';

/** Runs Helm; throws what it says when it fails. */
export async function helm(args: readonly string[], values?: object): Promise<string> {
  const version = process.env['HELM'] === '3' ? 3 : 4;
  const child = execute(
    helmPath(version),
    [...args, ...(values === undefined ? [] : ['--values', '-'])],
    {
      env: { PATH: process.env['PATH'], HOME: '/nonexistent', KUBECONFIG: kubeconfig, GOGC: 'off' },
    },
  );
  child.child.stdin?.end(values === undefined ? '' : JSON.stringify(values));
  try {
    return (await child).stdout;
  } catch (error) {
    const { stderr, stdout } = error as { stderr: string; stdout: string };
    throw new Error(`helm ${args.join(' ')}: ${stderr}${stdout}`, { cause: error });
  }
}

/** The image of the reference agent, which has git, curl and Node too. */
export const agentImage = () => ({
  repository: `${process.env['REGISTRY'] ?? ''}/conversation-operator-agent`,
  tag: process.env['TAG'] ?? '',
});

export interface ValuesOptions extends Pick<Facts, 'tools' | 'gitUrl'> {
  /** A second git host, which the gateway alone may reach. */
  readonly forge?: {
    readonly url: string;
    readonly port: number;
    /** Name of a Secret. */
    readonly credentials: string;
  };
  /** Values of `archive`. By default there is none. */
  readonly archive?: object;
  /** A provider that people sign in at. */
  readonly identity?: {
    /** Base URL of the gateway. */
    readonly publicUrl: string;
    /** Item of `gateway.signIn.issuers`. */
    readonly issuer: object;
    /** Name of a Secret. */
    readonly secret: string;
    /** Name of a ConfigMap. */
    readonly trust: string;
  };
  /** Whether the gateway asks the API server about the tokens of service accounts. */
  readonly tokenReview?: boolean;
}

/** The values that an administrator sets on this cluster; the others keep their defaults. */
export function chartValues({
  tools,
  gitUrl,
  forge,
  archive,
  identity,
  tokenReview = false,
}: ValuesOptions): object {
  const { repository, tag } = agentImage();
  const toolsAt = (port: number) => ({
    to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': tools } } }],
    ports: [{ port, protocol: 'TCP' }],
  });
  return {
    image: { repository: repository.replace(/-agent$/, ''), tag },
    gitHosts: [
      { provider: 'github', url: gitUrl },
      ...(forge === undefined ? [] : [{ provider: 'forgejo', url: forge.url }]),
    ],
    ...(forge === undefined ? {} : { gitCredentials: { existingSecret: forge.credentials } }),
    ...(archive === undefined ? {} : { archive }),
    ...(identity === undefined ? {} : { trust: { configMap: identity.trust } }),
    gateway: {
      publicUrl: identity?.publicUrl ?? publicUrl,
      signIn: {
        ...(identity === undefined
          ? {}
          : { issuers: [identity.issuer], existingSecret: identity.secret }),
        serviceAccounts: {
          rules: [{ namespace: tools, name: 'runner', owner: programOwner }],
          ...(tokenReview ? { tokenReview } : {}),
        },
      },
    },
    // A cluster of test/cluster has neither a DNS nor a plugin that enforces policies.
    ...(stateFolder === undefined ? {} : { check: { skip: ['dns', 'network-policy'] } }),
    networkPolicies: {
      // Sandboxes clone from there, and the gateway asks for the repository first.
      sandboxes: { extraEgress: [toolsAt(8080)] },
      gateway: {
        extraEgress: [toolsAt(8080), ...(forge === undefined ? [] : [toolsAt(forge.port)])],
      },
      relay: { extraEgress: [toolsAt(8080)] },
    },
    defaultTemplate: {
      image: { repository, tag },
      // Many at once on a small machine.
      resources: { requests: { cpu: '20m', memory: '64Mi' }, limits: { cpu: '2', memory: '1Gi' } },
      storage: { size: '1Gi' },
    },
  };
}

/** The installation under test, as one of its users. */
export class TestedInstallation extends RestUser {
  readonly facts: Facts;

  constructor(owner: Owner) {
    const facts = readFacts();
    super({ url: facts.url, key: facts.keys[owner] ?? '' });
    this.facts = facts;
  }

  /** kubectl in the sandboxes' namespace. */
  k(args: string | readonly string[], input?: string): Promise<string> {
    const list = typeof args === 'string' ? args.split(' ') : args;
    return kubectl(['--namespace', this.facts.sandboxes, ...list], input);
  }

  inSandbox(sandbox: string, script: string): Promise<string> {
    return this.k(['exec', sandbox, '--', '/bin/sh', '-c', script]);
  }
}
