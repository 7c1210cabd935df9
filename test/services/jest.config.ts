import type { Config } from 'jest';
import base from '../../jest.config.ts';

const config: Config = {
  ...base,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/services/**/*.services.ts'],
  // Each file has servers of its own.
  maxWorkers: 2,
  testTimeout: 200_000,
};

export default config;
