import { existsSync } from 'node:fs';
import { z } from 'zod';
import { archiveSettings, checkArchive } from './archive.ts';
import { httpUrl, readEnvironment, shared, urlsByProvider } from './environment.ts';

/** Empty, or the path of a file that exists. */
const trustFile = z.string().refine(existsSync, 'must be a PEM file with certificates').optional();

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
    /** As for the gateway. */
    GIT_CREDENTIALS_DIR: z.string().optional(),
    /** As for the gateway. */
    GIT_API_URLS: urlsByProvider('{}', httpUrl, '{"github":"https://github.example.com/api/v3"}'),
    /** Proxies and certificates of the processes. */
    HTTPS_PROXY: httpUrl.optional(),
    HTTP_PROXY: httpUrl.optional(),
    NO_PROXY: z.string().default(''),
    TRUST_FILE: trustFile,
    /** Name and namespace of the Helm release, for the lines that mend. */
    RELEASE: z.string().default('conversation-operator'),
    RELEASE_NAMESPACE: z.string().optional(),
    OPERATOR_ACCOUNT: accountName.optional(),
    GATEWAY_ACCOUNT: accountName.optional(),
    /** Image of the operator and the gateway; by default its pull is not tried. */
    IMAGE: z.string().optional(),
    /** Names of Secrets for the registry, in the namespace of the sandboxes, separated by commas. */
    IMAGE_PULL_SECRETS: z.string().default(''),
  })
  .superRefine(checkArchive);

/** The settings of `conversation-operator check`. */
export type CheckConfig = z.output<typeof schema>;

/** Throws `ConfigError`. Proxies are also read from the names in lower case, as curl does. */
export const readCheckConfig = (environment: NodeJS.ProcessEnv): CheckConfig =>
  readEnvironment(schema, {
    ...environment,
    HTTPS_PROXY: environment['HTTPS_PROXY'] ?? environment['https_proxy'],
    HTTP_PROXY: environment['HTTP_PROXY'] ?? environment['http_proxy'],
    NO_PROXY: environment['NO_PROXY'] ?? environment['no_proxy'],
  });
