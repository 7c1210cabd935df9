import {
  defaultQuota,
  defaultTemplate,
  referenceAgentImage,
} from '../../src/commands/initial-objects.ts';
import { DataFolder } from '../../src/commands/data-folder.ts';
import { startEmbeddedCluster } from '../../src/commands/embedded-cluster.ts';
import { createRuntime } from '../../src/commands/process.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import { sandboxTemplates } from '../../src/resources/sandbox-template.ts';

/** An embedded cluster of another product. Prints `ready`; SIGTERM ends it and its pods. */
const [dataDir = '', agentProgram = ''] = process.argv.slice(2);
const namespace = 'default';
await using stack = new AsyncDisposableStack();
const stopped = new Promise((resolve) => process.once('SIGTERM', resolve));
const images = { [referenceAgentImage]: { command: [process.execPath, agentProgram] } };
const options = {
  ...createRuntime(silentLogger),
  folder: new DataFolder(dataDir),
  port: 0,
  images,
};
const { client } = await startEmbeddedCluster(options, stack);
await client.create(sandboxTemplates, defaultTemplate(namespace));
await client.create(conversationQuotas, defaultQuota(namespace));
process.stdout.write('ready\n');
await stopped;
