int apart;
int uses_core;
