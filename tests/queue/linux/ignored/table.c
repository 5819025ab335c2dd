int before;
int middle;
int after;
