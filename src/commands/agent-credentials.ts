import { noAgentCredentials, type AgentCredentials } from '../agent/credentials.ts';
import type { Logger } from '@conversation-operator/base/logger';
import { CredentialFiles, secretLineOf } from './credential-files.ts';

/**
 * The API keys of models from the files of a mounted folder: NAME is for everybody, NAME.OWNER for
 * one owner instead.
 */
export function mountedAgentCredentials(
  folder: string | undefined,
  logger: Logger,
): AgentCredentials {
  if (folder === undefined) return noAgentCredentials;
  const files = new CredentialFiles({
    folder,
    logger,
    setting: 'AGENT_CREDENTIALS_DIR',
    what: 'a model credential',
    expected: 'it has to be one line with the key',
  });
  // The folder is checked at the start, so that a missing folder shows before the first
  // conversation needs it.
  files.list();
  return { of: async (owner, name) => (await files.of(name, owner, secretLineOf))?.value };
}
