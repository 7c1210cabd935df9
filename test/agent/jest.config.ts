import type { Config } from 'jest';
import base from '../../jest.config.ts';

const config: Config = {
  ...base,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/agent/**/*.agent.ts'],
  // An agent that starts takes a core for seconds; two files at once keep both busy.
  maxWorkers: 2,
  testTimeout: 800_000,
};

export default config;
