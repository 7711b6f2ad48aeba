# Rules for GNU make: an image as the linker leaves it becomes a stripped image and its sidecar.
#
#   include /usr/share/covsplit/covsplit.mk
#   app.unsplit: main.o more.o
#           $(CC) $(LDFLAGS) -o $@ $^
#   $(eval $(call covsplit_split,app,app.unsplit))
#   clean:
#           rm -f $(COVSPLIT_CLEAN)
#
# The sidecar is app.covsplit. Deleting it, or app, makes it again. An image that comes out as before
# keeps its time, so that nothing is made again that depends on it: app.split is there to know that
# the split was done. (Grouped targets, `&:`, would be no help: make takes an output that is older than
# its input for one to be made, and would split again each time.)
#
# With a store, where sidecars lie under the UUIDs of their images:
#
#   $(eval $(call covsplit_split_to_store,app,app.unsplit,sidecars))
#
# Sidecars in a store are no targets, and a store is not cleaned: it may have those of other builds.
# What is deleted in it comes back when app is made again.
#
# Variables: COVSPLIT, the command; COVSPLIT_OPTIONS, for `covsplit split`. COVSPLIT_CLEAN lists all
# that these rules make, but for what is in stores.

COVSPLIT ?= covsplit
COVSPLIT_OPTIONS ?=
COVSPLIT_CLEAN ?=

# Where an output is missing although its stamp is there, the split is to be done, once for all of
# them. This is seen when the makefile is read.
define covsplit_outputs
COVSPLIT_CLEAN += $(1) $(2)
ifneq ($$(words $$(wildcard $(1))),$(words $(1)))
$(2): .covsplit-missing
endif
$(1): $(2)
	@test -f $$@
endef
.PHONY: .covsplit-missing

# $(call covsplit_split,OUT,IN)
define covsplit_split
$(1).split: $(2)
	$$(COVSPLIT) split $$(COVSPLIT_OPTIONS) --sidecar $(1).covsplit -o $(1) $(2)
	@touch $$@
$(call covsplit_outputs,$(1) $(1).covsplit,$(1).split)
endef

# $(call covsplit_split_to_store,OUT,IN,STORE)
define covsplit_split_to_store
$(1).split: $(2)
	$$(COVSPLIT) split $$(COVSPLIT_OPTIONS) --store $(3) -o $(1) $(2)
	@touch $$@
$(call covsplit_outputs,$(1),$(1).split)
endef
