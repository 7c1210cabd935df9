import type { Config } from 'jest';
import base from '../../jest.config.ts';

const config: Config = {
  ...base,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/networks/**/*.networks.ts'],
  // One installation at a time.
  maxWorkers: 1,
  testTimeout: 200_000,
};

export default config;
