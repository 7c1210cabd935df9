import { z } from 'zod';
import { archiveSettings, checkArchive } from './archive.ts';
import { flag, httpUrl, readEnvironment, shared, urlsByProvider } from './environment.ts';
import { outwardSettings } from './outward.ts';
import { checkSandboxTrust, sandboxOutward } from './cluster.ts';

/** `namespace/name` of a service account. */
export const accountName = z
  .string()
  .regex(/^[a-z0-9-]{1,63}\/[a-z0-9.-]{1,253}$/, 'must be namespace/name');

const schema = z
  .object({
    GIT_HOSTS: shared.GIT_HOSTS,
    ...archiveSettings,
    /** Namespace of the sandboxes; by default that of the kubeconfig or of the pod. */
    NAMESPACE: z.string().optional(),
    /** Same value as the gateway's GIT_CREDENTIALS_DIR. */
    GIT_CREDENTIALS_DIR: z.string().optional(),
    /** Same value as the gateway's GIT_API_URLS. */
    GIT_API_URLS: urlsByProvider('{}', httpUrl, '{"github":"https://github.example.com/api/v3"}'),
    ...outwardSettings,
    ...sandboxOutward,
    /** Name and namespace of the Helm release, which the suggested commands contain. */
    RELEASE: z.string().default('conversation-operator'),
    RELEASE_NAMESPACE: z.string().optional(),
    OPERATOR_ACCOUNT: accountName.optional(),
    GATEWAY_ACCOUNT: accountName.optional(),
    /** Absent: the gateway serves the relay for models. */
    RELAY_ACCOUNT: accountName.optional(),
    /** Whether the gateway needs the right to ask the API server about tokens. */
    TOKEN_REVIEW: flag(false),
    /** Image of the operator and the gateway, whose pull is checked. Default: no such check. */
    IMAGE: z.string().optional(),
    /** Names of Secrets for the registry, in the sandboxes' namespace, separated by commas. */
    IMAGE_PULL_SECRETS: z.string().default(''),
  })
  .superRefine(checkArchive)
  .superRefine(checkSandboxTrust);

export type CheckConfig = z.output<typeof schema>;

/** Throws `ConfigError`. */
export const readCheckConfig = (environment: NodeJS.ProcessEnv): CheckConfig =>
  readEnvironment(schema, environment);
